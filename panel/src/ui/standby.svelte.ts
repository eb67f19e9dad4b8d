/**
 * True after the first page was shown. The panel then loads scripts that can be needed at any moment, such as the login
 * dialog. A later load can find a newer panel at the gateway: this requires a reload, which loses typed text.
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
