/** Stores whether the gateway answers requests. */
class Online {
  isLost = $state(false)
  readonly #followers: ((isLost: boolean) => void)[] = []

  lost(): void {
    this.#set(true)
  }

  reached(): void {
    this.#set(false)
  }

  /** Calls `run` each time the gateway stops answering, and each time it starts to answer again. */
  onChange(run: (isLost: boolean) => void): void {
    this.#followers.push(run)
  }

  #set(isLost: boolean): void {
    if (isLost === this.isLost) return
    this.isLost = isLost
    for (const run of this.#followers) run(isLost)
  }
}

export const online = new Online()
