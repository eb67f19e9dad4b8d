/** Maximum difference of clocks in ms. Certificates tolerate it, as they are valid from an hour before their issue. */
export const maxSkewMs = 3_600_000

/** Clocks to compare before a certificate is issued. Times are in ms since 1970; undefined: not known. */
export interface ClockWitnesses {
  readonly nowMs: number
  /** Recent jump of the gateway's clock in ms, measured with its monotonic clock. 0: the clock has not jumped. */
  readonly jumpMs: number
  /** Time in ms since 1970 according to the host that receives the certificate. */
  readonly peerMs?: number | undefined
  /** Time according to the store. */
  readonly storeMs?: number | undefined
  /** Time when the host's last certificate was issued. */
  readonly lastIssuedMs?: number | undefined
}

/** Reason why no certificates should be issued at present. "": the clock can be trusted. */
export function doubtClock(witnesses: ClockWitnesses): string {
  const { nowMs, jumpMs, peerMs, storeMs, lastIssuedMs } = witnesses
  const differs = (otherMs: number | undefined): otherMs is number =>
    otherMs !== undefined && Math.abs(otherMs - nowMs) > maxSkewMs
  if (differs(storeMs)) return `the clock of the store differs from this gateway by ${inWords(storeMs - nowMs)}`
  if (differs(peerMs)) return `the clock of the host differs from this gateway by ${inWords(peerMs - nowMs)}`
  // The host's clock agrees, so the gateway's clock is right. A jump means that this system was suspended. A future
  // `lastIssuedMs` means that the clock was wrong at that time.
  if (peerMs !== undefined) return ''
  if (jumpMs !== 0) return `the clock of this gateway has just jumped by ${inWords(jumpMs)}`
  // `lastIssuedMs` counts only if the store's time is unknown. Otherwise, one wrong time could block renewals for long.
  if (storeMs === undefined && lastIssuedMs !== undefined && lastIssuedMs - nowMs > maxSkewMs)
    return `the last certificate was issued ${inWords(lastIssuedMs - nowMs)} in the future`
  return ''
}

function inWords(ms: number): string {
  const minutes = Math.round(Math.abs(ms) / 60_000)
  const [amount, unit] = minutes >= 2 * 1440 ? [Math.round(minutes / 1440), 'days'] : [minutes, 'minutes']
  return `${ms < 0 ? '-' : ''}${amount} ${unit}`
}
