import { notFound } from '../../shared/errors.js'
import { steadyClock } from '../../shared/steady-clock.js'
import type { Fleet } from '../fleet/contract.js'
import { isOutdated, type HostWindow } from '../fleet/host-windows.js'
import { StoredDocument } from '../store/document.js'
import type { Lease } from '../store/lease.js'
import { LeasedWorker, type LeasedWorkerOptions } from '../store/leased-worker.js'
import {
  planAnnouncement,
  planCancel,
  planChange,
  planHost,
  planLost,
  planState,
  type HostFacts,
  type NewWindow,
} from './plan-window.js'
import { forgetOldest, type Window, type WindowFields, type Windows } from './window.js'

export interface MaintenanceOptions extends LeasedWorkerOptions {
  /** Returns the present time in ms since 1970. Default: the steady clock, because clock jumps must not end windows. */
  readonly now?: () => number
}

/**
 * Announced maintenance of hosts. The store has the windows, and the record of each host has a copy of its own windows.
 * Gateways show this copy with each guest of the host, and create events from its changes. Each version of a window is
 * copied once, so that all gateways report the same changes. Create this object before `store.start()`.
 */
export class Maintenance {
  readonly #document: StoredDocument<Windows>
  readonly #worker: LeasedWorker
  readonly #now: () => number

  constructor(private readonly options: MaintenanceOptions) {
    const { store, log, now = () => steadyClock.now() } = options
    this.#document = new StoredDocument<Windows>({ store, name: 'maintenance-windows', initial: {}, log })
    this.#worker = new LeasedWorker(options, 'maintenance-worker', 'start or end maintenance windows')
    this.#now = now
  }

  /** The gateway that holds this lease starts and ends windows. All other gateways only read them. */
  get lease(): Lease {
    return this.#worker.lease
  }

  /** All windows, earliest first. Empty until the store has been read. */
  get all(): readonly Window[] {
    return Object.values(this.#document.value ?? {}).sort((a, b) => a.startsAtMs - b.startsAtMs)
  }

  /** All windows, earliest first. @throws {BerthError} `store_unavailable` */
  list(): readonly Window[] {
    void this.#document.current
    return this.all
  }

  /** @throws {BerthError} `not_found`, `store_unavailable` */
  get(id: string): Window {
    return getFrom(this.#document.current, id)
  }

  start(fleet: Fleet): void {
    this.#worker.start(() => this.#work(fleet))
  }

  async close(): Promise<void> {
    await this.#worker.close()
  }

  /**
   * Announces maintenance. A repeated call with the same id changes nothing.
   * @throws {BerthError} `invalid_field`, `too_many_windows`, `store_unavailable`
   */
  announce(fleet: Fleet, wanted: NewWindow): Promise<Window> {
    return this.#change(fleet, wanted.id, (old) => old[wanted.id] ?? planAnnouncement(old, wanted, this.#now()))
  }

  /** @throws {BerthError} `not_found`, `invalid_field`, `invalid_state`, `store_unavailable` */
  update(fleet: Fleet, id: string, change: Partial<WindowFields>): Promise<Window> {
    return this.#change(fleet, id, (old) => planChange(getFrom(old, id), change, this.#now()))
  }

  /**
   * Cancels announced maintenance, or ends active maintenance now.
   * @throws {BerthError} `not_found`, `invalid_state`, `store_unavailable`
   */
  cancel(fleet: Fleet, id: string): Promise<Window> {
    return this.#change(fleet, id, (old) => planCancel(getFrom(old, id), this.#now()))
  }

  /** Stores a window, and then copies it to its hosts. If the copying fails, the worker completes it. */
  async #change(fleet: Fleet, id: string, change: (old: Windows) => Window): Promise<Window> {
    const windows = await this.#document.update((old) => forgetOldest({ ...old, [id]: change(old) }))
    const window = windows[id]!
    await this.#copy(fleet, factsOf(fleet), (host) => planHost(host, [window], this.#now()))
    return window
  }

  async #work(fleet: Fleet): Promise<void> {
    if (!fleet.isComplete || !this.#needsWork(fleet)) return
    if (await this.lease.take()) await this.#advance(fleet)
  }

  #needsWork(fleet: Fleet): boolean {
    const windows = this.#document.value
    const nowMs = this.#now()
    if (windows === undefined) return false
    return (
      isLate(windows, nowMs) || factsOf(fleet).some((host) => isBehind(host, planCopies(host, windows, nowMs), nowMs))
    )
  }

  /** Copies each state of a window to the hosts before the next state begins, so that no state is skipped. */
  async #advance(fleet: Fleet): Promise<void> {
    // The hosts are read before the windows. A window that a host shows but the store lacks was therefore lost.
    const hosts = factsOf(fleet)
    const windows = await this.#document.update((old) => old, this.lease)
    await this.#copy(fleet, hosts, (host) => planCopies(host, windows, this.#now()))
    while (isLate(this.#document.current, this.#now())) await this.#changeStates(fleet)
  }

  async #changeStates(fleet: Fleet): Promise<void> {
    const before = this.#document.current
    const after = await this.#document.update((old) => forgetOldest(planStates(old, this.#now())), this.lease)
    const changed = Object.values(after).filter(({ id, version }) => before[id]?.version !== version)
    for (const { id, state } of changed) this.options.log.info({ window: id }, `a maintenance window is ${state}`)
    await this.#copy(fleet, factsOf(fleet), (host) => planHost(host, changed, this.#now()))
  }

  async #copy(fleet: Fleet, hosts: readonly HostFacts[], plan: (host: HostFacts) => HostWindow[]): Promise<void> {
    for (const host of hosts) {
      const changed = plan(host)
      if (!isBehind(host, changed, this.#now())) continue
      await fleet.hosts.recordMaintenance(host.id, changed, this.#now()).catch((error: unknown) => {
        if (fleet.view.findHost(host.id)) throw error // a removed host needs no windows
      })
    }
  }
}

/** @throws {BerthError} `not_found` */
function getFrom(windows: Windows, id: string): Window {
  const window = Object.hasOwn(windows, id) ? windows[id] : undefined
  if (!window) throw notFound('maintenance window')
  return window
}

function factsOf({ view }: Fleet): HostFacts[] {
  return view.hosts().map(({ id, maintenance }) => ({ id, windows: maintenance }))
}

function planCopies(host: HostFacts, windows: Windows, nowMs: number): HostWindow[] {
  return [...planHost(host, Object.values(windows), nowMs), ...planLost(host, windows, nowMs)]
}

/** True if the record of the host must be changed. */
function isBehind({ windows }: HostFacts, changed: readonly HostWindow[], nowMs: number): boolean {
  return changed.length > 0 || windows.some((window) => isOutdated(window, nowMs))
}

function isLate(windows: Windows, nowMs: number): boolean {
  return Object.values(windows).some((window) => planState(window, nowMs) !== window)
}

function planStates(windows: Windows, nowMs: number): Windows {
  return Object.fromEntries(Object.entries(windows).map(([id, window]) => [id, planState(window, nowMs)]))
}
