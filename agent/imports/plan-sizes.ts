const decimal = { '': 1, b: 1, k: 1000, m: 1000 ** 2, g: 1000 ** 3, t: 1000 ** 4, p: 1000 ** 5 } as const
const binary = { k: 1024, m: 1024 ** 2, g: 1024 ** 3, t: 1024 ** 4, p: 1024 ** 5 } as const

/**
 * Parses a size of LXD, Incus or Proxmox: `10GiB` is binary and `10GB` is decimal.
 * @param short meaning of a unit of one letter such as `10G`; in Proxmox, it is binary
 * @returns bytes; undefined if the text is not a size that a number can hold exactly
 */
export function parseSize(text: string, short: 'decimal' | 'binary' = 'decimal'): number | undefined {
  const [, digits = '', unit = '', form = ''] = /^(\d{1,15}(?:\.\d{1,6})?) ?([kmgtp]?)(ib|b)?$/i.exec(text.trim()) ?? []
  if (digits === '') return undefined
  const isBinary = form.toLowerCase() === 'ib' || (form === '' && short === 'binary')
  const units: Readonly<Record<string, number>> = isBinary ? { ...decimal, ...binary } : decimal
  const bytes = Math.floor(Number(digits) * (units[unit.toLowerCase()] ?? NaN))
  return Number.isSafeInteger(bytes) ? bytes : undefined
}

/** Parses a decimal number of at most 9 digits. @returns undefined for other texts, and for numbers above `max` */
export function parseCount(text: string, max: number): number | undefined {
  const number = /^\d{1,9}$/.test(text) ? Number(text) : undefined
  return number !== undefined && number <= max ? number : undefined
}

/** Counts the processors of a list such as `0-3,6`. @returns undefined if the text is not such a list */
export function countProcessors(text: string): number | undefined {
  const most = 4096
  let total = 0
  for (const part of text.split(',')) {
    const [, first = '', last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(part.trim()) ?? []
    const count = Number(last) - Number(first) + 1
    if (first === '' || count < 1) return undefined
    total += count
  }
  return total <= most ? total : undefined
}
