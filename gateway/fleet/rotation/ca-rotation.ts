import type { Logger } from 'pino'
import { SingleFlight } from '../../../shared/async/single-flight.js'
import { describeError, invalidField } from '../../../shared/errors.js'
import type { Fence } from '../../../shared/fence.js'
import { upgradeStateOf } from '../../join/host-upgrade.js'
import type { Authority } from '../../pki/authority.js'
import type { FleetAuthority } from '../../pki/fleet-authority.js'
import { StoredDocument } from '../../store/document.js'
import { Lease } from '../../store/lease.js'
import type { Store } from '../../store/store.js'
import type { ClockCheck } from '../agents/clock-check.js'
import type { HostRecord } from '../host-record.js'
import type { FleetState } from '../view.js'
import type { WatchedHosts } from '../watched-hosts.js'
import {
  planCancel,
  planFinish,
  planHostStep,
  planRotation,
  refuseSecondRotation,
  type HostStep,
} from '../../rotation/plan-rotation.js'
import {
  isActive,
  type FleetRotation,
  type Rotation,
  type RotationFacts,
  type RotationHost,
} from '../../rotation/rotation.js'
import { openKey, refuseUnsupported, sealKeys, type RotationMember, type RotationMembers } from './members.js'

export interface CaRotationOptions {
  readonly store: Store
  readonly log: Logger
  readonly authority: FleetAuthority
  readonly clock: ClockCheck
  readonly view: FleetState
  readonly watched: WatchedHosts
  readonly caDays: number
  /** Members of the rotation. Absent: this gateway is the only one. */
  readonly gateways?: RotationMembers | undefined
  /** True if this gateway presents its certificate of this CA on all connections to hosts that this CA certified. */
  readonly isInUse: (fingerprint: string) => boolean
  /** Executes the step that `stepFor` returns for each connected host, for example a renewal of its certificate. */
  readonly checkHosts: () => Promise<void>
  readonly everyMs?: number
  readonly leaseMs?: number
}

/**
 * Replaces the CA of the fleet while the fleet runs. The store contains the state of the rotation. All gateways
 * follow this state, and the gateway that holds the lease advances it. Create the object before `store.start()`.
 */
export class CaRotation implements FleetRotation {
  readonly #rotation: StoredDocument<Rotation | null>
  readonly lease: Lease
  readonly #working = new SingleFlight()
  #timer: NodeJS.Timeout | undefined
  #closed = false
  #problem = ''

  constructor(private readonly options: CaRotationOptions) {
    const { store, log, leaseMs = 10_000 } = options
    this.#rotation = new StoredDocument<Rotation | null>({ store, name: 'ca-rotation', initial: null, log })
    this.lease = new Lease(store, 'ca-rotation-worker', leaseMs)
    this.#rotation.onChange(() => this.#wake())
  }

  get current(): Rotation | null {
    return this.#rotation.current
  }

  get known(): Rotation | undefined {
    return this.#rotation.value ?? undefined
  }

  get authority(): Pick<FleetAuthority, 'first' | 'next'> {
    return this.options.authority
  }

  start(): void {
    void this.#rotation.refresh() // if the store is not ready yet, the document is read when it becomes ready
    this.#timer = setInterval(() => this.#wake(), this.options.everyMs ?? 1000)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    await this.#working.settled()
    await this.lease.release().catch(() => undefined) // if this fails, the lease expires
  }

  get #members(): readonly RotationMember[] {
    return this.options.gateways?.members() ?? []
  }

  /** Facts about hosts and gateways for `planRotation`. */
  facts(): RotationFacts {
    const hosts = [...this.options.watched.watchers()].map(({ host }) => factsOf(host.record))
    return { hosts, gateways: this.#members, nowMs: Date.now() }
  }

  async begin({ id, startedBy }: { readonly id: string; readonly startedBy: string }): Promise<Rotation> {
    const { authority, clock, caDays } = this.options
    if (this.current?.id === id) return this.current
    refuseSecondRotation(this.current)
    refuseUnsupported(this.options.view.hosts(), this.#members)
    await clock.check({})
    const from = authority.fingerprint
    const next = await authority.ensureNext(caDays)
    const begun = await this.#rotation.update((old) => {
      refuseSecondRotation(old)
      return this.#newRotation({ id, startedBy, from }, next)
    })
    return begun!
  }

  async finish(withoutHosts: readonly string[]): Promise<Rotation> {
    const unknown = withoutHosts.find((id) => !this.options.view.findHost(id))
    if (unknown !== undefined) throw invalidField('without_hosts', `without_hosts: host ${unknown} does not exist`)
    return (await this.#rotation.update((old) => planFinish(old, withoutHosts)))!
  }

  async cancel(): Promise<Rotation> {
    return (await this.#rotation.update((old) => planCancel(old, Date.now())))!
  }

  /** The CA that issues the next certificate of a host. */
  issuerFor(record: HostRecord): Authority {
    const { authority } = this.options
    const step = planHostStep(this.known ?? null, record, authority.fingerprint)
    return authority.of(step?.kind === 'renew' ? this.known?.to : this.issuerOf(record))
  }

  /** Fingerprint of the CA that has issued the certificate of a host. undefined: the first CA. */
  issuerOf({ issuer }: HostRecord): string | undefined {
    return issuer ?? this.known?.from
  }

  /** Returns the next step for a connected host. undefined: no step is due, or another gateway does it. */
  stepFor(record: HostRecord): HostStep | undefined {
    if (!this.lease.held || this.#rotation.value === undefined) return undefined
    return planHostStep(this.#rotation.value, record, this.options.authority.fingerprint)
  }

  /** @throws {BerthError} `lease_lost` */
  get fence(): Fence {
    return this.lease.fence
  }

  #wake(): void {
    void this.#working.run(() => this.#work())
  }

  async #work(): Promise<void> {
    const rotation = this.#rotation.value
    if (this.#closed || rotation === undefined) return
    try {
      // A gateway that lacks the new CA must not hold the lease, because the holder encrypts the CA for other gateways.
      if (rotation && !(await this.#follow(rotation))) return
      // Before all hosts are known, missing hosts would count as removed.
      if (!this.options.watched.isComplete || !rotation || !this.#hasWork(rotation)) return
      if (!(await this.lease.take())) return
      await this.options.checkHosts()
      if (isActive(rotation)) await this.#advance()
      this.#problem = ''
    } catch (error) {
      this.#note(describeError(error))
    }
  }

  /** True if the rotation is not finished, or a host has not completed its part. */
  #hasWork(rotation: Rotation): boolean {
    const { watched, authority } = this.options
    const hasStep = ({ host }: { host: { record: HostRecord } }): boolean =>
      planHostStep(rotation, host.record, authority.fingerprint) !== undefined
    return isActive(rotation) || [...watched.watchers()].some(hasStep)
  }

  /**
   * Applies the state of the rotation to this gateway, and confirms it.
   * @returns false if the gateway needs the new CA and has not received it yet
   */
  async #follow(rotation: Rotation): Promise<boolean> {
    const { authority } = this.options
    const { state, to } = rotation
    if (state === 'ended') await authority.replaceByNext(to)
    if (state === 'canceled') await authority.discardNext(to)
    if (!isActive(rotation)) return true
    if (authority.next?.fingerprint !== to && !(await this.#receive(rotation))) return false
    await authority.joinWithNext(state === 'ending')
    await this.#confirm(rotation)
    return true
  }

  /** Stores the next CA. @returns false if no gateway has encrypted the CA for this gateway yet */
  async #receive({ keys, to }: Rotation): Promise<boolean> {
    const { gateways, authority, log } = this.options
    const pem = gateways && openKey(gateways, keys)
    if (pem === undefined) return false
    await authority.installNext(pem, to)
    log.info({ fingerprint: to }, 'this gateway has received the next certificate authority')
    return true
  }

  async #confirm({ id, state, to }: Rotation): Promise<void> {
    const { gateways, isInUse } = this.options
    if (!gateways || this.known?.applied[gateways.ownId] === state) return
    if (state === 'ready' && !isInUse(to)) return
    await this.#rotation.update((old) => {
      if (old?.id !== id || old.state !== state) return old
      return { ...old, applied: { ...old.applied, [gateways.ownId]: state } }
    })
  }

  async #advance(): Promise<void> {
    await this.#encryptForMembers()
    const planned = (old: Rotation | null): Rotation | null => old && planRotation(old, this.facts())
    const before = this.#rotation.value!
    if (!before || planned(before) === before) return
    if (planned(before)?.state === 'ended') await this.#revokeExcluded(before)
    const after = await this.#rotation.update(planned, this.lease)
    this.options.log.info({ state: after?.state }, 'the replacement of the certificate authority continues')
  }

  /** Encrypts the next CA for gateways that have joined after the rotation began. */
  async #encryptForMembers(): Promise<void> {
    const { authority } = this.options
    const rotation = this.known
    const { next } = authority
    if (!rotation || next?.fingerprint !== rotation.to) return
    const added = sealKeys(next, this.#members, rotation.keys)
    if (Object.keys(added).length === 0) return
    await this.#rotation.update(
      (old) => (old?.id === rotation.id && isActive(old) ? { ...old, keys: { ...added, ...old.keys } } : old),
      this.lease,
    )
  }

  /** Revokes the old CA's certificates of excluded hosts, for which the rotation did not wait. They must join again. */
  async #revokeExcluded({ to, excluded }: Rotation): Promise<void> {
    const { watched } = this.options
    for (const { id, joined, issuer } of this.facts().hosts)
      if (joined && issuer !== to && excluded.includes(id))
        await watched.update(id, (record) =>
          record.issuer === to ? record : { ...record, serials: [], certificateNotAfterMs: 0 },
        )
  }

  #newRotation(start: { id: string; startedBy: string; from: string }, next: Authority): Rotation {
    return {
      ...start,
      state: 'distributing',
      to: next.fingerprint,
      toPem: next.caPem,
      keys: sealKeys(next, this.#members, {}),
      applied: {},
      finishing: false,
      excluded: [],
      startedAtMs: Date.now(),
      endedAtMs: 0,
    }
  }

  /** Logs a problem, unless it is the same as the last one. */
  #note(problem: string): void {
    if (problem !== this.#problem)
      this.options.log.warn({ problem }, 'the certificate authority cannot be replaced yet')
    this.#problem = problem
  }
}

function factsOf({ id, name, serials, issuer, trusted, upgrade }: HostRecord): RotationHost {
  const upgrading = upgrade !== undefined && upgradeStateOf(upgrade) === 'running'
  return { id, name, joined: serials.length > 0, issuer, trusted, upgrading }
}
