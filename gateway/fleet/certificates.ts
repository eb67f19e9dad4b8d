import type { Logger } from 'pino'
import type { CreateSigningRequestResponse } from '../../proto/gen/berth/agent/v1/certificate.js'
import { conflict, describeError } from '../../shared/errors.js'
import type { CertificateIdentity } from '../../shared/identity.js'
import { steadyClock } from '../../shared/steady-clock.js'
import { StaleEpochError } from '../../shared/fence.js'
import type { Authority, IssuedCertificate } from '../pki/authority.js'
import { renewAtMs } from '../pki/gateway-leaf.js'
import type { GatewayLeaves } from '../pki/gateway-leaves.js'
import { callAgent } from './agents/agent-client.js'
import { isConnectionGood, type AgentConnection } from './agents/agent-connection.js'
import type { AgentConnector } from './agents/agent-connector.js'
import type { HostState } from './host-state.js'
import type { HostWatcher } from './host-watcher.js'
import type { WatchedHosts } from './watched-hosts.js'
import type { ClockCheck } from './agents/clock-check.js'
import { renewableDays, type RenewalConnection } from './agents/renewal-connection.js'
import { RenewalWaits } from './agents/renewal-waits.js'
import type { CaRotation } from './rotation/ca-rotation.js'
import type { HostStep } from '../rotation/plan-rotation.js'

export interface CertificateOptions {
  readonly leaves: GatewayLeaves
  readonly rotation: Pick<CaRotation, 'issuerFor' | 'issuerOf' | 'stepFor' | 'fence' | 'lease'>
  readonly authorityPem: (fingerprint: string) => string
  /** True if the host takes part in a move of a guest. The move needs the host's present certificate and CA. */
  readonly isMoving: (hostId: string) => Promise<boolean>
  readonly leafLifetimeMs: number
  readonly callTimeoutMs: number
  readonly log: Logger
  readonly clock: ClockCheck
  readonly watched: WatchedHosts
  readonly connector: AgentConnector
}

/** Maximum number of accepted certificates of a host. Old ones stay accepted until all connections use the newest. */
const keptSerials = 16
/** Maximum number of hosts that the rotation of the CA changes at the same time. */
const mostAtOnce = 16
/** Delay in ms before another attempt to renew a certificate that has expired or is not valid yet. */
const renewAgainMs = 5000

/**
 * Renews the certificates of the gateway and the agents. New connections use the new certificates. The old connection
 * to an agent stays in use until a new one has delivered the host's complete state.
 */
export class CertificateKeeper {
  #timer: NodeJS.Timeout | undefined
  readonly #renewing = new Set<string>()
  readonly #waits = new RenewalWaits()
  /** Last logged problem with the renewal of a certificate, by host id. A problem is logged only when it changes. */
  readonly #problems = new Map<string, string>()
  readonly #everyMs: number

  constructor(private readonly options: CertificateOptions) {
    this.#everyMs = Math.max(100, Math.min(5000, options.leafLifetimeMs / 20))
  }

  start(): void {
    this.#timer = setInterval(() => void this.check(), this.#everyMs)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  async check(): Promise<void> {
    const { leaves, log } = this.options
    try {
      for (const serial of await leaves.renewIfDue(Date.now(), steadyClock.jumpMs() !== 0))
        log.info({ serial }, 'the certificate of the gateway was renewed')
    } catch (error) {
      log.error({ error }, 'the certificate of the gateway could not be renewed')
    }
    for (const watcher of this.options.watched.watchers()) this.#checkHost(watcher)
  }

  #checkHost(watcher: HostWatcher): void {
    const { host, liveConnection: connection } = watcher
    const peer = connection?.peer()
    if (!connection || !peer) return
    if (!isConnectionGood(host, connection)) return watcher.restart()
    if (this.#isOutdated(host, connection, peer)) watcher.refresh()
    const { serials, certificateNotAfterMs } = host.record
    const dueAtMs = renewAtMs(certificateNotAfterMs, this.options.leafLifetimeMs)
    const step = this.options.rotation.stepFor(host.record)
    if (steadyClock.earliest() >= dueAtMs) void this.#renewOnce(watcher, connection)
    else if (step && this.#renewing.size < mostAtOnce) void this.#rotateOnce(watcher, connection, step)
    else if (serials.length > 1 && peer.serial === serials.at(-1)) void this.#forgetEarlier(host, peer.serial)
  }

  /** True if the gateway or the agent has a newer certificate than the one that the connection uses. */
  #isOutdated({ record }: HostState, { target }: AgentConnection, peer: CertificateIdentity): boolean {
    const { leaves, rotation } = this.options
    const { serials, certificateNotAfterMs } = record
    return (
      target.leaf.serial !== leaves.of(rotation.issuerOf(record)).serial ||
      (peer.notAfterMs < certificateNotAfterMs && peer.serial !== serials.at(-1))
    )
  }

  async #renewOnce(watcher: HostWatcher, connection: AgentConnection): Promise<void> {
    const { host } = watcher
    const { id } = host.record
    if (this.#waits.isWaiting(id, this.#everyMs)) return
    await this.#once(id, async () => {
      await this.#renew(host, connection)
      this.options.log.info({ host: id }, 'the certificate of an agent was renewed')
      watcher.refresh()
    })
  }

  /**
   * Executes a step of the rotation of the CA. After a failure, the step is repeated after a delay. Both hosts of a
   * move keep their certificates until the move is decided. A change of their trusted CAs is still possible.
   */
  async #rotateOnce(watcher: HostWatcher, connection: AgentConnection, step: HostStep): Promise<void> {
    const { host } = watcher
    const { id } = host.record
    if (this.#waits.hasFailed(id, this.#everyMs)) return
    const refuseMoving = (): Promise<void> => this.#refuseMoving(id)
    await this.#once(id, async () => {
      if (step.kind === 'trust' && step.fingerprints.length > 1)
        return this.#installAuthorities(host, connection, step.fingerprints)
      if (await this.options.isMoving(id)) return
      if (step.kind === 'trust') return this.#installAuthorities(host, connection, step.fingerprints)
      await this.#renew(host, connection, refuseMoving)
      watcher.refresh()
    })
  }

  async #refuseMoving(hostId: string): Promise<void> {
    if (await this.options.isMoving(hostId))
      throw conflict('guest_moving', 'the host takes part in the move of a container')
  }

  async #once(hostId: string, work: () => Promise<void>): Promise<void> {
    if (this.#renewing.has(hostId)) return
    this.#renewing.add(hostId)
    try {
      await work()
    } catch (error) {
      if (error instanceof StaleEpochError) return this.options.rotation.lease.exceed(error.highest)
      this.#waits.failed(hostId)
      this.options.log.warn(
        { host: hostId, error },
        'the certificate of an agent could not be renewed; trying again later',
      )
    } finally {
      this.#renewing.delete(hostId)
    }
  }

  /** Makes an agent trust exactly these CAs. The fence makes the call fail if another gateway took over the lease. */
  async #installAuthorities(
    { record: { id } }: HostState,
    { certificates }: AgentConnection,
    fingerprints: readonly string[],
  ): Promise<void> {
    const { rotation, authorityPem, callTimeoutMs, watched } = this.options
    const request = { authorityPems: fingerprints.map(authorityPem) }
    const { fingerprints: confirmed } = await callAgent(certificates.installAuthorities.bind(certificates), request, {
      step: 'install certificate authorities',
      timeoutMs: callTimeoutMs,
      fence: rotation.fence,
    })
    await watched.update(id, (record) => {
      const known = new Set([...fingerprints, ...(record.trusted ?? [])])
      return { ...record, trusted: [...known].filter((fingerprint) => confirmed.includes(fingerprint)) }
    })
    this.#waits.succeeded(id)
  }

  /**
   * Renews the certificate of an agent if a connection failed because the certificate has expired or is not valid yet.
   * Does nothing after other failures.
   */
  async renewRefused(watcher: HostWatcher, reason: unknown): Promise<void> {
    const { host } = watcher
    const { id } = host.record
    if (!isOutsideValidity(describeError(reason)) || this.#renewing.has(id)) return
    if (this.#waits.isWaiting(id, renewAgainMs)) return
    this.#renewing.add(id)
    const connection = this.options.connector.connectForRenewal(host)
    try {
      await this.#renew(host, connection)
      this.#problems.delete(id)
      this.options.log.info({ host: id }, 'the certificate of an agent was renewed although it was not valid')
      watcher.restart()
    } catch (error) {
      this.#waits.failed(id)
      this.#noteProblem(host, describeError(error))
    } finally {
      connection.close()
      this.#renewing.delete(id)
    }
  }

  #noteProblem(host: HostState, problem: string): void {
    const { id } = host.record
    if (problem !== this.#problems.get(id)) this.options.log.warn({ host: id, problem }, notRenewable(host))
    this.#problems.set(id, problem)
  }

  /** @param check called after the serial number of the new certificate was stored; an error ends the renewal */
  async #renew(
    host: HostState,
    connection: Pick<RenewalConnection, 'certificates' | 'peer'>,
    check?: () => Promise<void>,
  ): Promise<void> {
    const { certificates } = connection
    const { callTimeoutMs, watched } = this.options
    const options = { step: 'renew certificate', timeoutMs: callTimeoutMs }
    const request = await callAgent(certificates.createSigningRequest.bind(certificates), {}, options)
    const issuer = this.options.rotation.issuerFor(host.record)
    const issued = await this.#issue(host, request, issuer)
    const hostId = host.record.id
    // The peer is only known after the first call, because this call establishes the connection.
    const inUse = connection.peer()?.serial
    await watched.update(hostId, (record) => ({
      ...record,
      serials: addSerial(record.serials, issued.serial, inUse),
    }))
    await check?.()
    const { certificatePem, notAfterMs } = issued
    await callAgent(certificates.installCertificate.bind(certificates), { certificatePem }, options)
    const { fingerprint } = issuer
    await watched.update(hostId, (record) => ({ ...record, certificateNotAfterMs: notAfterMs, issuer: fingerprint }))
    this.#waits.succeeded(hostId)
  }

  /** Issues a certificate for the host of this connection. An agent can therefore renew only its own certificate. */
  async #issue(
    { record }: HostState,
    { csrPem, nowMs }: CreateSigningRequestResponse,
    issuer: Authority,
  ): Promise<IssuedCertificate> {
    const { clock, leafLifetimeMs } = this.options
    await clock.check({
      ...(nowMs > 0 && { peerMs: nowMs }),
      ...(record.certificateNotAfterMs > 0 && {
        lastIssuedMs: record.certificateNotAfterMs - leafLifetimeMs,
      }),
    })
    return issuer.signRequest(csrPem, { role: 'agent', hostId: record.id }, leafLifetimeMs)
  }

  /** Revokes older certificates after all gateways have had time to use the newest one. */
  async #forgetEarlier(host: HostState, serial: string): Promise<void> {
    const { leafLifetimeMs, log, watched } = this.options
    const issuedAtMs = host.record.certificateNotAfterMs - leafLifetimeMs
    if (steadyClock.earliest() < issuedAtMs + Math.min(60_000, leafLifetimeMs / 4)) return
    try {
      await watched.update(host.record.id, (record) =>
        record.serials.at(-1) === serial ? { ...record, serials: [serial] } : record,
      )
    } catch (error) {
      log.warn(
        { host: host.record.id, error },
        'earlier certificates of a host could not be revoked; trying again later',
      )
    }
  }
}

/** True if a message of OpenSSL or Berth, or a code of Node, means that a certificate is expired or not valid yet. */
function isOutsideValidity(problem: string): boolean {
  return /certificate has expired|certificate is not (yet valid|valid yet)|CERT_HAS_EXPIRED|CERT_NOT_YET_VALID/.test(
    problem,
  )
}

function notRenewable({ record: { id } }: HostState): string {
  return (
    `the certificate of this host is not valid and could not be renewed: see "problem". If it expired more than ` +
    `${renewableDays} days ago or was revoked, let the host join again: POST /hosts/${id}/join-token`
  )
}

/** Adds a serial number and drops old numbers. Never drops `inUse`, the number of the agent's present certificate. */
export function addSerial(serials: readonly string[], issued: string, inUse: string | undefined): string[] {
  const others = serials.filter((serial) => serial !== inUse)
  const kept = serials.filter((serial) => serial === inUse)
  return [...kept, ...others.slice(kept.length + 1 - keptSerials), issued]
}
