import type { AlertAction, Severity } from '../../shared/abuse.js'
import { worse, type Finding, type RecordedFlow } from './contract.js'

/** An alert as stored in the journal, without its id and revision. */
export interface AlertState {
  readonly guestUuid: string
  readonly guestId: number
  readonly guestName: string
  readonly type: Finding['type']
  readonly severity: Severity
  readonly sourceIp: string
  readonly targetIp: string
  readonly targetPort: number
  readonly detail: string
  readonly firstAtMs: number
  readonly lastAtMs: number
  readonly count: number
  readonly action: AlertAction
  /** Time of the planned stop in ms since 1970. 0: no stop is planned. */
  readonly stopAtMs: number
  /** Time in ms since 1970 at which the abuse was last seen as critical. 0: never. */
  readonly criticalAtMs: number
  /** Behaviour that counts as critical if it continues. Undefined in alerts of older versions. */
  readonly suspicion?: Suspicion
  /** True if the alert came from a former host of the guest, and has not changed since. */
  readonly moved?: boolean
}

/** Start and end, in ms since 1970, of behaviour that looked critical. It is critical once it has lasted `goesOnMs`. */
export interface Suspicion {
  readonly sinceMs: number
  readonly lastMs: number
}

/** The guest that a finding concerns, with its present name and address. */
export interface AlertGuest {
  readonly guestUuid: string
  readonly guestId: number
  readonly guestName: string
  readonly sourceIp: string
}

/** Time in ms for which an alert stays open after its last finding. Another finding in this time extends the alert. */
export const quietMs = 15 * 60_000
/**
 * Time in ms for which behaviour must continue before it counts as critical. A single burst ends earlier. Several
 * evaluations find the same burst, because each of them covers several minutes.
 */
const goesOnMs = 15_000
/** Minimum length in ms of a pause in abuse after which more abuse counts as new behaviour. */
const pauseMs = 120_000
/** Maximum number of open alerts of one type for a guest. Further findings share an additional alert (target `*`). */
const mostAtOnce = 5

/** True if the alert is open, so that further findings extend it. */
export function isOpen({ lastAtMs }: Pick<AlertState, 'lastAtMs'>, nowMs: number): boolean {
  return lastAtMs > nowMs - quietMs
}

/** Returns the finding's target and port, or `*` and 0 if the guest has `mostAtOnce` open alerts of this type. */
export function planAlertPlace(
  open: readonly AlertState[],
  { type, target, port }: Finding,
): [target: string, port: number] {
  const alike = open.filter((alert) => alert.type === type)
  const known = alike.some((alert) => alert.targetIp === target && alert.targetPort === port)
  return known || alike.length < mostAtOnce ? [target, port] : ['*', 0]
}

interface AlertSighting {
  readonly guest: AlertGuest
  readonly place: readonly [target: string, port: number]
  readonly nowMs: number
  /** Time in ms since 1970 at which the guest last sent packets that belong to the finding (`lastSeenMs`). */
  readonly seenAtMs: number
}

const unknown: Pick<AlertState, 'firstAtMs' | 'count' | 'action' | 'stopAtMs' | 'criticalAtMs' | 'suspicion'> = {
  firstAtMs: 0,
  count: 0,
  action: '',
  stopAtMs: 0,
  criticalAtMs: 0,
}

/** Plans the alert after a finding. @param before the alert to extend; undefined: a new alert */
export function planAlert(
  before: AlertState | undefined,
  finding: Finding,
  { guest, place: [targetIp, targetPort], nowMs, seenAtMs }: AlertSighting,
): AlertState {
  const known = before ?? unknown
  const { severity, ...critical } = judgeCritical(known, finding, seenAtMs)
  return {
    ...guest,
    type: finding.type,
    targetIp,
    targetPort,
    detail: finding.detail,
    severity: before ? worse(before.severity, severity) : severity,
    firstAtMs: known.firstAtMs || nowMs,
    lastAtMs: nowMs,
    count: known.count + 1,
    action: known.action,
    stopAtMs: known.stopAtMs,
    ...critical,
  }
}

type Critical = Pick<AlertState, 'severity' | 'criticalAtMs' | 'suspicion'>

/** Returns a finding's severity. A critical finding is only `high` until the behaviour has continued for `goesOnMs`. */
function judgeCritical(
  known: Pick<AlertState, 'criticalAtMs' | 'suspicion' | 'action' | 'stopAtMs'>,
  { severity }: Finding,
  seenAtMs: number,
): Critical {
  const { criticalAtMs, suspicion } = known
  const kept = { criticalAtMs, ...(suspicion && { suspicion }) }
  if (severity !== 'critical') return { severity, ...kept }
  if (seenAtMs === 0) return { severity: 'high', ...kept }
  const sinceMs = suspicion && isSame(suspicion, known, seenAtMs) ? suspicion.sinceMs : seenAtMs
  const goesOn = seenAtMs - sinceMs >= goesOnMs
  return {
    severity: goesOn ? 'critical' : 'high',
    criticalAtMs: goesOn ? seenAtMs : criticalAtMs,
    suspicion: { sinceMs, lastMs: seenAtMs },
  }
}

/** True if behaviour at `seenAtMs` continues the suspicion, without a pause or a stop of the guest in between. */
function isSame(
  { sinceMs, lastMs }: Suspicion,
  { action, stopAtMs }: Pick<AlertState, 'action' | 'stopAtMs'>,
  seenAtMs: number,
): boolean {
  const isOver = action !== 'stop_pending' && sinceMs <= stopAtMs
  return !isOver && seenAtMs >= lastMs && seenAtMs - lastMs <= pauseMs
}

export const keptSamples = 50

/** Returns the recorded flows that an alert stores as proof of a finding. */
export function planSamples(rows: readonly RecordedFlow[], { target, port, type }: Finding): RecordedFlow[] {
  const about = rows.filter(
    (row) =>
      (target === '*' || row.target === target) &&
      (port === 0 || type === 'proxy' || type === 'reflection' || row.port === port),
  )
  return about.slice(-keptSamples)
}
