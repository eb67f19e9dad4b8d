const storageKey = 'berth.session'

/** Reports to the other tabs that the session of this browser now belongs to another account. */
export function changeTabs(): void {
  localStorage.setItem(storageKey, String(Date.now()))
}

/** True if another tab has reported that the session now belongs to another account. */
export function isOtherAccount({ key }: StorageEvent): boolean {
  return key === storageKey
}
