import type { Alert } from '../../proto/gen/berth/agent/v1/security.js'
import { keptAlerts } from '../../shared/abuse.js'
import type { AlertView } from './contract.js'
import type { FleetChanges } from './fleet-changes.js'
import type { HostState } from './host-state.js'
import { parseAlert } from './parse-events.js'

/** Adds reported alerts to the fleet view, within a limit for each host. */
export class ReportedAlerts {
  /** Alerts that moved with their guests, by id: the host that has the alert now. */
  readonly #moved = new Map<string, HostState>()

  constructor(private readonly changes: FleetChanges) {}

  set(host: HostState, raw: Alert): void {
    const alert = parseAlert(raw)
    if (!alert || (host.alerts.size >= keptAlerts && !host.alerts.has(alert.id)))
      return void (host.refused = 'the agent reported alerts without valid id or too many')
    const before = host.alerts.get(alert.id)
    const after = { hostId: host.record.id, alert }
    host.alerts.set(alert.id, after)
    if (alert.moved) this.#moved.set(alert.id, host)
    // An alert that moved with its guest was reported by the former host already.
    if (before || !alert.moved) this.changes.tell(host, { kind: 'alert', ...(before && { before }), after })
  }

  delete(host: HostState, id: string): void {
    const before = host.alerts.get(id)
    const hasLeft = before !== undefined && this.hasLeft(host, before)
    host.alerts.delete(id)
    if (this.#moved.get(id) === host) this.#moved.delete(id)
    if (before && !hasLeft) this.changes.tell(host, { kind: 'alert', before })
  }

  /** Returns the alerts of a host, except those that have moved with their guests to other hosts. */
  listOf(host: HostState): AlertView[] {
    return [...host.alerts.values()].filter((alert) => !this.hasLeft(host, alert))
  }

  /** True if the guest has left this host, and another host now shows the alert. */
  hasLeft(host: HostState, { alert: { id, guestUuid } }: AlertView): boolean {
    const next = this.#moved.get(id)
    if (!next || next === host || host.guests.has(guestUuid)) return false
    return next.alerts.get(id)?.alert.guestUuid === guestUuid
  }
}
