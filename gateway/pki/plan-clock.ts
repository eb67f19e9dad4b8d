/** Certificates are valid from one hour before they are issued, so smaller differences of clocks do no harm. */
export const maxSkewMs = 3_600_000

/** Clocks to compare with the gateway's clock before it issues a certificate; ms since 1970, undefined if not known. */
export interface ClockWitnesses {
  readonly nowMs: number
  /** Size of a recent jump of the clock, measured by the monotonic clock. */
  readonly jumpMs: number
  /** The clock of the receiver of the certificate. */
  readonly peerMs?: number | undefined
  /** The store's TIME. */
  readonly storeMs?: number | undefined
  /** When the receiver's last certificate was issued. */
  readonly lastIssuedMs?: number | undefined
}

/** The reason not to issue certificates now; "": the clock can be trusted. */
export function doubtClock(witnesses: ClockWitnesses): string {
  const { nowMs, jumpMs, peerMs, storeMs, lastIssuedMs } = witnesses
  const differs = (otherMs: number | undefined): otherMs is number =>
    otherMs !== undefined && Math.abs(otherMs - nowMs) > maxSkewMs
  if (differs(storeMs)) return `the clock of the store differs from this gateway by ${inWords(storeMs - nowMs)}`
  if (differs(peerMs)) return `the clock of the host differs from this gateway by ${inWords(peerMs - nowMs)}`
  // If the host's clock agrees, the other signs are harmless: the machine was suspended, or an earlier certificate lies
  // in the future.
  if (peerMs !== undefined) return ''
  if (jumpMs !== 0) return `the clock of this gateway has just jumped by ${inWords(jumpMs)}`
  // The same applies if the store's clock agrees: otherwise one wrong clock would block renewals until that time.
  if (storeMs === undefined && lastIssuedMs !== undefined && lastIssuedMs - nowMs > maxSkewMs)
    return `the last certificate was issued ${inWords(lastIssuedMs - nowMs)} in the future`
  return ''
}

function inWords(ms: number): string {
  const minutes = Math.round(Math.abs(ms) / 60_000)
  const [amount, unit] = minutes >= 2 * 1440 ? [Math.round(minutes / 1440), 'days'] : [minutes, 'minutes']
  return `${ms < 0 ? '-' : ''}${amount} ${unit}`
}
