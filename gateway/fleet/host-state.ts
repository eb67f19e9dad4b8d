import { addAllocation, noAllocation, type Allocation } from '../../shared/allocation.js'
import { version } from '../../shared/version.js'
import type { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { GuestImport } from '../../proto/gen/berth/agent/v1/import.js'
import type { AlertView, GuestView, HostView, OperationView, TemplateView } from './contract.js'
import type { HostRecord } from './host-record.js'
import { findNextWindow, type HostWindow } from './host-windows.js'
import { planPublicAddress, type PublicAddress } from './public-address.js'
import { HostTotals } from './host-totals.js'

/** All hosts without labels share this list, because cached rows are only reused if lists are identical objects. */
const noLabels: readonly string[] = []
const noWindows: readonly HostWindow[] = []

/** The fleet view's data about one host. The keys of the maps are uuids or ids. Items are in creation order. */
export class HostState {
  readonly guests = new Map<string, GuestEntry>()
  readonly totals = new HostTotals()
  readonly operations = new Map<string, OperationView>()
  /** Operations of guests that moved, by id, while they are shown at another host. */
  readonly waitingOperations = new Map<string, OperationView>()
  readonly templates = new Map<string, TemplateView>()
  /** Imports that wait for a gateway, by id. */
  readonly imports = new Map<string, GuestImport>()
  readonly alerts = new Map<string, AlertView>()
  /** Guests of this host that are hidden because of a conflict, by uuid. `reason` describes the conflict. */
  readonly conflicts = new Map<string, { guest: Guest; reason: string }>()
  /** Reason for the conflict, by uuid, of each guest that this host reports although the store names another owner. */
  readonly disowned = new Map<string, string>()
  /**
   * Guests that now belong to other hosts, although this host possibly still runs an old copy. By uuid: ownership
   * generation of the present owner. This host itself only knows an older generation.
   */
  readonly outdated = new Map<string, number>()
  /** Guests that were read from the store, in base64, by uuid. Empty after the first complete report of the host. */
  readonly stored = new Map<string, Guest>()
  /** Number of port mappings of all guests of the host. */
  mappings = 0
  /** The latest reason why this gateway rejected data of the agent. */
  refused = ''
  online = false
  /** Content of the last confirmation of owners on the present connection. See `OwnerConfirmations`. */
  confirmation: { readonly hasOtherHosts: boolean } | undefined
  lastSeenMs = 0
  description: HostDescription | undefined
  metrics: HostMetrics | undefined
  /** Identity of the agent's journal, and the last revision received from it. New streams continue from there. */
  epoch = ''
  revision = 0
  /** The view has all changes up to this revision. `revision` can be higher, because a slow stream sends some later. */
  shownRevision = 0
  /** Listeners get only those changes of the host's first report that have a higher revision. See `ReportingHost`. */
  newsAfter: number | undefined

  /** Public address of the host, cached because it is shown with each guest. See `readShared`. */
  publicAddress: PublicAddress = { host: '', source: 'none' }
  /** Current or next maintenance window of the host, cached because it is shown with each guest. */
  nextWindow: HostWindow | undefined

  constructor(public record: HostRecord) {
    this.readShared()
  }

  /** Updates the host's data that is shown with each guest. @returns true if this data has changed */
  readShared(): boolean {
    const changes = [this.#readAddress(), this.#readNextWindow()]
    return changes.includes(true)
  }

  #readNextWindow(): boolean {
    const before = this.nextWindow
    const after = findNextWindow(this.record.maintenance ?? noWindows)
    if (before?.id === after?.id && before?.version === after?.version) return false
    this.nextWindow = after
    return true
  }

  #readAddress(): boolean {
    const before = this.publicAddress
    const after = planPublicAddress({
      set: this.record.publicAddress ?? '',
      ipv4: this.metrics?.publicIpv4 ?? '',
      ipv6: this.metrics?.publicIpv6 ?? '',
      agentAddress: this.record.address,
    })
    if (before.host === after.host && before.source === after.source) return false
    this.publicAddress = after
    return before.host !== after.host
  }

  /** Limits of all guests, and disks of the copies of standbys. */
  get allocated(): Allocation {
    return addAllocation(this.totals.allocated, { ...noAllocation, diskGb: this.metrics?.standbyDiskGb ?? 0 })
  }

  get view(): HostView {
    const { id, name, address, install, upgrade, draining, drained, createdAtMs, certificateNotAfterMs, serials } =
      this.record
    const { joinExpiresAtMs, group = '', labels = noLabels, maintenance = noWindows } = this.record
    const state = this.online ? 'online' : serials.length > 0 ? 'offline' : 'pending'
    return {
      id,
      name,
      address,
      install,
      joinToken: joinExpiresAtMs === undefined ? 'none' : Date.now() < joinExpiresAtMs ? 'valid' : 'expired',
      upgrade,
      drained,
      maintenance,
      state,
      draining,
      group,
      labels,
      publicAddress: this.publicAddress,
      createdAtMs,
      certificateNotAfterMs,
      lastSeenMs: this.lastSeenMs,
      outdated: this.description !== undefined && this.description.version !== version,
      description: this.description,
      metrics: this.metrics,
      warnings: this.warnings,
      fenced: this.fenced,
    }
  }

  get fenced(): number {
    return [...this.conflicts.values()].filter(({ guest }) => guest.ownership?.role === 'fenced').length
  }

  get warnings(): string[] {
    // A guest that is being restored is still shown on its failed host. This expected conflict needs no warning.
    const shown = [...this.conflicts.values()].filter(({ guest }) => guest.status !== 'creating')
    const conflicts = shown.slice(0, 20).map(({ reason }) => reason)
    return [...(this.metrics?.warnings ?? []), ...conflicts, ...(this.refused ? [this.refused] : [])]
  }
}

/** A guest in the fleet view. `online` is read from the host, so that a new connection changes only the host. */
export class GuestEntry implements GuestView {
  /** Data that readers of the fleet view have derived from the guest. A separate map would use more memory. */
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

  get maintenance(): HostWindow | undefined {
    return this.host.nextWindow
  }
}
