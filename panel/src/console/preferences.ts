const storageKey = 'berth.console'

/** Settings of terminals on this browser. */
export interface Preferences {
  /** In pixels. */
  readonly fontSize: number
  readonly screenReader: boolean
  /** Layout of the guest's keyboard, for text that is typed into a screen. */
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

/** @returns the settings after the change */
export function changePreferences(changes: Partial<Preferences>): Preferences {
  const changed = { ...readPreferences(), ...changes }
  localStorage.setItem(storageKey, JSON.stringify(changed))
  return changed
}
