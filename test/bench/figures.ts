/** One row of the report. */
export interface Figure {
  readonly name: string
  readonly unit: string
  /** Values by system, in the order of the columns: `Berth`, `raw tools`, `LXD`, `bare Koa`. */
  readonly values: ReadonlyMap<string, number>
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const [low = NaN, high = NaN] = [sorted[middle - 1] ?? sorted[middle], sorted[middle]]
  return sorted.length % 2 === 1 ? high : (low + high) / 2
}

/** Returns the duration of one run in ms. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now()
  await work()
  return performance.now() - begun
}

export function figure(name: string, unit: string, values: Record<string, number | undefined>): Figure {
  const known = Object.entries(values).filter((entry): entry is [string, number] => entry[1] !== undefined)
  return { name, unit, values: new Map(known) }
}

/** Prints a Markdown table with columns for Berth, each other system, and Berth's value divided by that system's. */
export function printFigures(title: string, figures: readonly Figure[]): void {
  const others = [...new Set(figures.flatMap((f) => [...f.values.keys()]))].filter((name) => name !== 'Berth')
  console.log(`\n### ${title}\n`)
  console.log(
    `| | Berth | ${others.map((name) => `${name} | Berth / ${name}`).join(' | ')}${others.length > 0 ? ' |' : ''}`,
  )
  console.log(`|---|---|${others.map(() => '---|---|').join('')}`)
  for (const { name, unit, values } of figures) {
    const own = values.get('Berth')
    const cells = others.flatMap((other) => {
      const value = values.get(other)
      if (value === undefined) return ['', '']
      return [`${round(value)} ${unit}`, own === undefined ? '' : round(own / value)]
    })
    console.log(`| ${[name, own === undefined ? '' : `${round(own)} ${unit}`, ...cells].join(' | ')} |`)
  }
}

function round(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)
}
