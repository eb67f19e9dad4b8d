/**
 * True after the first page was shown. The panel then loads scripts that it can need at any moment, such as the login
 * dialog. If the gateway gets a newer panel, a later load would require a reload of the page, which loses typed text.
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
