import type { Logger } from 'pino'
import type { WatchResponse } from '../../proto/gen/berth/agent/v1/watch.js'
import { describeError } from '../../shared/errors.js'
import { GrpcAgentClient } from './agents/agent-client.js'
import { isConnectionGood, type AgentConnection } from './agents/agent-connection.js'
import type { AgentConnector } from './agents/agent-connector.js'
import { AgentLink } from './agents/agent-link.js'
import { journalLane } from './change-mark.js'
import type { HostState } from './host-state.js'
import type { PauseWatch } from './pause-watch.js'
import type { GuestOwners } from './placement/guest-owners.js'
import { hasIdentity } from './parse-events.js'
import { WatchSession, type SyncedState } from './watch-session.js'
import type { FleetState } from './view.js'
import type { WatchEvent } from './watch-kinds.js'

/** Delays in ms between attempts to connect. `maxAwaited` replaces `max` while calls may wait for the host. */
const retryMs = { first: 100, max: 2000, maxAwaited: 250 }
/** If a timer is late by at least this time in ms, this process was paused. */
const lateMs = 1000

export interface WatcherOptions {
  readonly view: FleetState
  readonly owners: GuestOwners
  readonly connector: AgentConnector
  readonly pauses: PauseWatch
  readonly log: Logger
  /** Time in ms in which a host can reconnect after a stream has ended, before its guests are shown as unknown. */
  readonly reconnectMs: number
  readonly callTimeoutMs: number
  /** Time in ms that calls may wait for a host after the gateway's start. 0: the host is not expected to connect. */
  expectedMs(hostId: string): number
  /** Called when a connection has failed or ended. */
  connectionFailed(watcher: HostWatcher, reason: unknown): void
}

/**
 * Keeps one host in the fleet view up to date by a live stream, and connects again if the stream breaks. When
 * certificates change, a new stream replaces the old one without a gap.
 */
export class HostWatcher {
  #live: WatchSession | undefined
  /** Session that replaces `#live` as soon as the session has the complete state. `undefined`: none is being opened. */
  #next: WatchSession | undefined
  #failures = 0
  #retryTimer: NodeJS.Timeout | undefined
  #offlineTimer: NodeJS.Timeout | undefined
  #stopped = false
  #lastProblem = ''
  #settled = false
  #refusalNoted = false

  readonly client: GrpcAgentClient

  constructor(
    readonly host: HostState,
    private readonly options: WatcherOptions,
  ) {
    const { view, pauses, reconnectMs, callTimeoutMs } = options
    const { hostChanged } = view
    const expectedMs = (): number => options.expectedMs(host.record.id)
    const link = new AgentLink({ host, hostChanged, reconnectMs, watcher: this, pauses, expectedMs })
    this.client = new GrpcAgentClient(link, callTimeoutMs)
  }

  /** Connection of the live stream. `undefined` while no live stream is open. */
  get liveConnection(): AgentConnection | undefined {
    return this.#live?.connection
  }

  /** The connection of the live stream, for calls. `undefined`: no live stream, or its certificates are not valid. */
  get connection(): AgentConnection | undefined {
    const { liveConnection } = this
    return liveConnection && isConnectionGood(this.host, liveConnection) ? liveConnection : undefined
  }

  /** True if the first attempt to connect is over, with or without success. */
  get settled(): boolean {
    return this.#settled
  }

  start(): void {
    if (!this.#stopped && !this.#next) this.#open()
  }

  /** Opens a new connection. The present connection stays in use until the new one has delivered the complete state. */
  refresh(): void {
    this.start()
  }

  /** Replaces a connection that can be broken although no error was reported. Calls wait for the new connection. */
  distrust(): void {
    this.client.link.distrust()
    this.refresh()
  }

  /** Closes all connections and connects again. Used after the host's address changed or a certificate was revoked. */
  restart(): void {
    this.#closeSessions()
    this.#goOffline()
    this.start()
  }

  stop(): void {
    this.#stopped = true
    this.#closeSessions()
    this.#goOffline()
  }

  #open(): void {
    clearTimeout(this.#retryTimer)
    const { host } = this
    const session: WatchSession = new WatchSession(this.options.connector.connect(host), host, {
      synced: (state) => this.#synced(session, state),
      changed: (message) => this.#changed(session, message),
      ended: (reason) => this.#ended(session, reason),
    })
    this.#next = session
  }

  async #synced(session: WatchSession, state: SyncedState): Promise<void> {
    const { host } = this
    const { owners, log } = this.options
    const reported = state.kind === 'all' ? state.snapshot.values('guest') : changedGuests(state.changes)
    const guests = reported.filter(hasIdentity)
    await owners.releaseGone(host, findGone(host, state)) // before the claims: a new guest may have the name of a removed one
    await owners
      .check(host, guests, state.epoch)
      .catch((error: unknown) =>
        log.warn(
          { host: host.record.id, error },
          'could not reserve the ids and names of a host’s guests in the store',
        ),
      )
    if (session.ended || this.#stopped) return
    this.#show(state)
    const before = this.#live
    this.#live = session
    this.#next = undefined
    before?.close()
    this.#goOnline()
  }

  #show(state: SyncedState): void {
    const { host } = this
    const { view } = this.options
    if (state.kind === 'changes' && host.epoch !== '' && state.epoch !== host.epoch) {
      host.epoch = ''
      throw new Error('the database of the agent was replaced: the gateway reads all its data again')
    }
    if (state.kind === 'all') view.replace(host, state.snapshot, state)
    else for (const message of state.changes) this.#apply(message, state.epoch)
    host.stored.clear()
    host.epoch = state.epoch
    host.revision = state.revision
    host.shownRevision = state.revision
    this.#noteRefusal()
    view.hostChanged.notify(host.record.id)
  }

  #changed(session: WatchSession, message: WatchResponse): void {
    if (session !== this.#live) return
    const { host } = this
    host.lastSeenMs = Date.now()
    this.#apply(message, host.epoch)
    this.#noteRefusal()
    if (message.revision <= host.revision) return
    host.revision = message.revision
    host.shownRevision = message.completeRevision || message.revision // older agents do not send `completeRevision`
    this.options.view.hostChanged.notify(host.record.id)
  }

  #apply(message: WatchResponse, epoch: string): void {
    const { host } = this
    const { event, revision } = message
    if (!event || event.$case === 'synced') return
    if (event.$case === 'reset') throw new Error('the agent sent the event "reset" in the middle of a stream')
    // Events about the host itself and its metrics have no revision, so they are never outdated.
    if (event.$case === 'host' || event.$case === 'metrics') return this.options.view.apply(host, event)
    // The fleet view already contains this change, from an earlier stream or from the complete state.
    if (epoch === host.epoch && revision <= host.revision) return
    const isNews = isGuestNews(host, event)
    this.options.view.apply(host, event, { lane: journalLane(host.record.id, epoch), revision })
    if (isNews) void this.options.owners.guestChanged(host, event)
  }

  #ended(session: WatchSession, reason: unknown): void {
    const wasLive = session === this.#live
    if (wasLive) this.#live = undefined
    if (session === this.#next) this.#next = undefined
    if (this.#stopped) return
    this.#settled = true
    this.#note(reason)
    this.options.connectionFailed(this, reason)
    if (wasLive && !this.#offlineTimer) this.#offlineLater()
    // No retry is planned while a live session or another attempt exists, because `refresh` is called again later.
    if (!this.#live && !this.#next) this.#retryLater(wasLive)
  }

  #offlineLater(): void {
    const { reconnectMs } = this.options
    const startMs = performance.now()
    this.#offlineTimer = setTimeout(() => {
      // If the timer is late, this process was paused and could not reconnect. The time limit then begins again.
      if (performance.now() - startMs > reconnectMs + lateMs) this.#offlineLater()
      else this.#goOffline()
    }, reconnectMs)
  }

  #retryLater(wasLive: boolean): void {
    const max = this.client.link.isUsable ? retryMs.maxAwaited : retryMs.max
    const ceiling = Math.min(max, retryMs.first * 2 ** Math.min(this.#failures, 10))
    this.#failures = wasLive ? 1 : this.#failures + 1
    clearTimeout(this.#retryTimer)
    this.#retryTimer = setTimeout(() => this.start(), ceiling * (0.5 + Math.random() / 2))
  }

  #goOnline(): void {
    const { host } = this
    const { view, log } = this.options
    clearTimeout(this.#offlineTimer)
    this.#offlineTimer = undefined
    this.#failures = 0
    this.#lastProblem = ''
    this.#settled = true
    host.lastSeenMs = Date.now()
    host.confirmation = undefined // the host may have booted, even if it was never shown as offline
    if (!host.online) log.info({ host: host.record.id, name: host.record.name }, 'a host is online')
    view.setOnline(host, true)
    view.hostChanged.notify(host.record.id)
  }

  /** Marks the host as offline and cancels waiting calls. */
  #goOffline(): void {
    const { host } = this
    const { view, log } = this.options
    clearTimeout(this.#offlineTimer)
    this.#offlineTimer = undefined
    if (this.#live) return
    if (host.online) log.warn({ host: host.record.id, name: host.record.name }, 'a host is offline')
    view.setOnline(host, false)
    view.hostChanged.notify(host.record.id)
    this.client.link.cancelCalls()
    view.operationChanged.notifyAll()
  }

  /** Logs a problem, unless it is the same as the last one. */
  #note(reason: unknown): void {
    const problem = describeError(reason)
    const { host } = this
    const { log } = this.options
    if (problem !== this.#lastProblem)
      log.info({ host: host.record.id, address: host.record.address, problem }, 'could not connect to a host')
    this.#lastProblem = problem
  }

  /** Logs the first rejected data. Logs no further rejection until all data of the host is accepted again. */
  #noteRefusal(): void {
    const { record, refused } = this.host
    if (refused !== '' && !this.#refusalNoted)
      this.options.log.warn(
        { host: record.id, name: record.name, problem: refused },
        'data that a host has reported is not valid and was rejected',
      )
    this.#refusalNoted = refused !== ''
  }

  #closeSessions(): void {
    clearTimeout(this.#retryTimer)
    this.#live?.close()
    this.#next?.close()
    this.#live = undefined
    this.#next = undefined
  }
}

/** Finds guests that the host no longer has. Returns [] if the fleet view is newer than a complete state. */
function findGone(host: HostState, state: SyncedState): string[] {
  if (state.kind === 'changes') return removedGuests(state.changes)
  if (state.epoch === host.epoch && state.revision < host.revision) return []
  const { snapshot } = state
  return [...host.guests.keys(), ...host.conflicts.keys()].filter((uuid) => !snapshot.has('guest', uuid))
}

function changedGuests(changes: readonly WatchResponse[]) {
  return changes.flatMap(({ event }) => (event?.$case === 'guest' ? [event.value] : []))
}

function removedGuests(changes: readonly WatchResponse[]): string[] {
  return changes.flatMap(({ event }) =>
    event?.$case === 'removed' && event.value.kind === 'guest' ? [event.value.key] : [],
  )
}

/** True if the event adds a guest to the view, removes one, or changes its name. */
function isGuestNews(host: HostState, event: WatchEvent): boolean {
  return event.$case === 'removed'
    ? event.value.kind === 'guest'
    : event.$case === 'guest' && host.guests.get(event.value.uuid)?.guest.name !== event.value.name
}
