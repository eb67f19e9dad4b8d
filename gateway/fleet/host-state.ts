import type { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { GuestView, HostView, OperationView, TemplateView } from './contract.js'
import type { HostRecord } from './host-record.js'
import { HostTotals } from './host-totals.js'

/** One host in the view. Maps are keyed by uuid and id; insertion order is age. */
export class HostState {
  readonly guests = new Map<string, GuestEntry>()
  readonly totals = new HostTotals()
  readonly operations = new Map<string, OperationView>()
  readonly templates = new Map<string, TemplateView>()
  /** Guests it reported that clash with another guest: why, by uuid. They show up once the other is gone. */
  readonly conflicts = new Map<string, { guest: Guest; reason: string }>()
  /** Guests that the store says are not this host's: why, by uuid. */
  readonly disowned = new Map<string, string>()
  /** Port mappings of all its guests. */
  mappings = 0
  /** Data that was refused, newest reason. */
  refused = ''
  online = false
  lastSeenMs = 0
  description: HostDescription | undefined
  metrics: HostMetrics | undefined
  /** Identity of the agent's journal, and up to where it is known; what a new stream resumes from. */
  epoch = ''
  revision = 0

  constructor(public record: HostRecord) {}

  get view(): HostView {
    const { id, name, address, draining, createdAtMs, certificateNotAfterMs, serials } = this.record
    const state = this.online ? 'online' : serials.length > 0 ? 'offline' : 'pending'
    return {
      id,
      name,
      address,
      state,
      draining,
      createdAtMs,
      certificateNotAfterMs,
      lastSeenMs: this.lastSeenMs,
      description: this.description,
      metrics: this.metrics,
      warnings: this.warnings,
    }
  }

  get warnings(): string[] {
    const conflicts = [...this.conflicts.values()].slice(0, 20).map(({ reason }) => reason)
    return [...(this.metrics?.warnings ?? []), ...conflicts, ...(this.refused ? [this.refused] : [])]
  }
}

/** `online` follows the host, so that a host coming or going touches no guest. */
export class GuestEntry implements GuestView {
  /** What was made of it for readers; a map of all entries would cost more than the entries. */
  shown: unknown = undefined

  constructor(
    private readonly host: HostState,
    readonly guest: Guest,
  ) {}

  get hostId(): string {
    return this.host.record.id
  }

  get online(): boolean {
    return this.host.online
  }
}
