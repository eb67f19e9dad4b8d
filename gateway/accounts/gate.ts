/** Lets so many pieces of work run at once; others wait, those of `first` in front. */
export class Gate {
  #running = 0
  readonly #waiting: { readonly first: (() => void)[]; readonly others: (() => void)[] } = {
    first: [],
    others: [],
  }

  constructor(
    private readonly atOnce: number,
    /** Of each of the two lines. */
    private readonly maxWaiting: number,
  ) {}

  /** @returns undefined when too many wait */
  enter<T>(work: () => Promise<T>, first: boolean): Promise<T> | undefined {
    const line = first ? this.#waiting.first : this.#waiting.others
    if (this.#running >= this.atOnce && line.length >= this.maxWaiting) return undefined
    return this.#run(line, work)
  }

  async #run<T>(line: (() => void)[], work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.atOnce) await new Promise<void>((resolve) => line.push(resolve))
    else this.#running++
    try {
      return await work()
    } finally {
      this.#leave()
    }
  }

  /** Hands its place over to the next one, so that nobody slips in between. */
  #leave(): void {
    const next = this.#waiting.first.shift() ?? this.#waiting.others.shift()
    if (next) next()
    else this.#running--
  }
}
