/**
 * True once the first page is shown. Then the scripts are loaded that a user may need at any moment, such as the login
 * dialog after the end of a session: later the gateway may have a newer panel, and typed text must not be lost.
 */
class Standby {
  isReady = $state(false)

  begin(): void {
    const ready = (): boolean => (this.isReady = true)
    // Safari has no requestIdleCallback.
    if (typeof requestIdleCallback === 'function') requestIdleCallback(ready, { timeout: 5000 })
    else setTimeout(ready, 500)
  }
}

export const standby = new Standby()
