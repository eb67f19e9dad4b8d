import { version } from '../../shared/version.js'
import type { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { AlertView, GuestView, HostView, OperationView, TemplateView } from './contract.js'
import type { HostRecord } from './host-record.js'
import { planPublicAddress, type PublicAddress } from './public-address.js'
import { HostTotals } from './host-totals.js'

/** One host in the view. Maps are keyed by uuid and id, in order of age. */
export class HostState {
  readonly guests = new Map<string, GuestEntry>()
  readonly totals = new HostTotals()
  readonly operations = new Map<string, OperationView>()
  readonly templates = new Map<string, TemplateView>()
  readonly alerts = new Map<string, AlertView>()
  /** By uuid, reported guests that clash with another guest, and why. They are shown once the other one is gone. */
  readonly conflicts = new Map<string, { guest: Guest; reason: string }>()
  /** By uuid, why the store says that guests are not this host's. */
  readonly disowned = new Map<string, string>()
  /** Number of port mappings of all its guests. */
  mappings = 0
  /** Newest reason why data was refused. */
  refused = ''
  online = false
  lastSeenMs = 0
  description: HostDescription | undefined
  metrics: HostMetrics | undefined
  /** Identity of the agent's journal and the last known revision, from which a new stream resumes. */
  epoch = ''
  revision = 0

  /** Cached, since every guest of the host shows it: see `readAddress`. */
  publicAddress: PublicAddress = { host: '', source: 'none' }

  constructor(public record: HostRecord) {
    this.readAddress()
  }

  /** Call it after a change of the record or the metrics. @returns whether the shown address has changed */
  readAddress(): boolean {
    const before = this.publicAddress
    this.publicAddress = planPublicAddress({
      set: this.record.publicAddress ?? '',
      ipv4: this.metrics?.publicIpv4 ?? '',
      ipv6: this.metrics?.publicIpv6 ?? '',
      agentAddress: this.record.address,
    })
    return before.host !== this.publicAddress.host
  }

  get view(): HostView {
    const { id, name, address, install, draining, createdAtMs, certificateNotAfterMs, serials } = this.record
    const state = this.online ? 'online' : serials.length > 0 ? 'offline' : 'pending'
    return {
      id,
      name,
      address,
      install,
      state,
      draining,
      publicAddress: this.publicAddress,
      createdAtMs,
      certificateNotAfterMs,
      lastSeenMs: this.lastSeenMs,
      outdated: this.description !== undefined && this.description.version !== version,
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

/** Reads `online` from the host, so that the guests stay unchanged when the host connects or disconnects. */
export class GuestEntry implements GuestView {
  /** Data that readers derived from the guest; a map of all entries would cost more memory than the entries. */
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

  get hostAddress(): string {
    return this.host.publicAddress.host
  }
}
