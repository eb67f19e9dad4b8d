const storageKey = 'berth.console'

/** Settings of the terminals in this browser. */
export interface Preferences {
  /** Font size in pixels. */
  readonly fontSize: number
  readonly screenReader: boolean
  /** Keyboard layout of the guest, used to type a text into its screen. */
  readonly layout: string
}

const usual: Preferences = { fontSize: 14, screenReader: false, layout: 'us' }

export function readPreferences(): Preferences {
  try {
    return { ...usual, ...(JSON.parse(localStorage.getItem(storageKey) ?? '{}') as Partial<Preferences>) }
  } catch {
    return usual
  }
}

/** Changes settings and stores them. @returns all settings after the change */
export function changePreferences(changes: Partial<Preferences>): Preferences {
  const changed = { ...readPreferences(), ...changes }
  localStorage.setItem(storageKey, JSON.stringify(changed))
  return changed
}
