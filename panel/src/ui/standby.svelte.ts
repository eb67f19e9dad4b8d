/**
 * True after the first page was shown. Scripts that may be needed at any moment, such as the login dialog, are then
 * loaded. Later the gateway may have a newer panel: loading them would require a reload, which loses typed text.
 */
class Standby {
  isReady = $state(false)

  begin(): void {
    const ready = (): boolean => (this.isReady = true)
    // Safari does not provide requestIdleCallback.
    if (typeof requestIdleCallback === 'function') requestIdleCallback(ready, { timeout: 5000 })
    else setTimeout(ready, 500)
  }
}

export const standby = new Standby()
