import { parseHidden, withHidden } from './hidden-warnings.ts'

const storageKey = 'berth.hiddenWarnings'

/** The warnings of hosts that the user has hidden in the overview, in this browser. */
class HiddenWarnings {
  #keys = $state.raw<readonly string[]>(parseHidden(localStorage.getItem(storageKey)))

  has(key: string): boolean {
    return this.#keys.includes(key)
  }

  hide(keys: readonly string[]): void {
    this.#write(withHidden(this.#keys, keys))
  }

  show(keys: readonly string[]): void {
    this.#write(this.#keys.filter((one) => !keys.includes(one)))
  }

  #write(keys: readonly string[]): void {
    this.#keys = keys
    localStorage.setItem(storageKey, JSON.stringify(keys))
  }
}

export const hiddenWarnings = new HiddenWarnings()
