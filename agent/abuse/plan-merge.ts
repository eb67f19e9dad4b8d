import type { AlertAction, Severity } from '../../shared/abuse.js'
import { worse, type Finding, type FlowRow } from './contract.js'

/** An alert as journaled, but for its id and revision. */
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
  /** 0: it is not about to be stopped. */
  readonly stopAtMs: number
  /** When it was last seen, being critical; 0: never. */
  readonly criticalAtMs: number
  /** What may become critical, if it goes on; alerts of older agents have none. */
  readonly suspicion?: Suspicion
}

/** From when to when that was seen again and again which is critical if it is no accident. ms since 1970. */
export interface Suspicion {
  readonly sinceMs: number
  readonly lastMs: number
}

/** The guest that a finding is of, as it is now. */
export interface AlertGuest {
  readonly guestUuid: string
  readonly guestId: number
  readonly guestName: string
  readonly sourceIp: string
}

/** What is found again within this time is the same alert. */
export const quietMs = 15 * 60_000
/** What goes on for this long is critical; one burst, which is found again for minutes, is not. */
const goesOnMs = 15_000
/** What is seen again only after that is something new. */
const pauseMs = 120_000
/** Alerts of one type that a guest may have at once: what is more is told together. */
const mostAtOnce = 5

/** Whether the alert may still grow. */
export function isOpen({ lastAtMs }: Pick<AlertState, 'lastAtMs'>, nowMs: number): boolean {
  return lastAtMs > nowMs - quietMs
}

/** The target that a finding is told of, and its port. */
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
  /** See `lastSeenMs`. */
  readonly seenAtMs: number
}

const unknown: Pick<AlertState, 'firstAtMs' | 'count' | 'action' | 'stopAtMs' | 'criticalAtMs' | 'suspicion'> = {
  firstAtMs: 0,
  count: 0,
  action: '',
  stopAtMs: 0,
  criticalAtMs: 0,
}

/** The alert after a finding. @param before undefined: it is a new one */
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

/** What is critical is high until it has gone on. */
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

/** Not what was before a stop, or before its end by itself. */
function isSame(
  { sinceMs, lastMs }: Suspicion,
  { action, stopAtMs }: Pick<AlertState, 'action' | 'stopAtMs'>,
  seenAtMs: number,
): boolean {
  const isOver = action !== 'stop_pending' && sinceMs <= stopAtMs
  return !isOver && seenAtMs >= lastMs && seenAtMs - lastMs <= pauseMs
}

/** Samples of an alert: at most so many are kept. */
export const keptSamples = 50

/** Rows that show what an alert is about. */
export function planSamples(rows: readonly FlowRow[], { target, port, type }: Finding): FlowRow[] {
  const about = rows.filter(
    (row) =>
      (target === '*' || row.target === target) &&
      (port === 0 || type === 'proxy' || type === 'reflection' || row.port === port),
  )
  return about.slice(-keptSamples)
}
