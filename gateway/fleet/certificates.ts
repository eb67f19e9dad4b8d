import type { Logger } from 'pino'
import type { CreateSigningRequestResponse } from '../../proto/gen/berth/agent/v1/certificate.js'
import { describeError } from '../../shared/errors.js'
import { steadyClock } from '../../shared/steady-clock.js'
import type { Authority, IssuedCertificate } from '../pki/authority.js'
import { renewAtMs, type GatewayLeaf } from '../pki/gateway-leaf.js'
import { callAgent } from './agents/agent-client.js'
import { isConnectionGood, type AgentConnection } from './agents/agent-connection.js'
import type { AgentConnector } from './agents/agent-connector.js'
import type { HostState } from './host-state.js'
import type { HostWatcher } from './host-watcher.js'
import type { WatchedHosts } from './watched-hosts.js'
import type { ClockCheck } from './agents/clock-check.js'
import { renewableDays, type RenewalConnection } from './agents/renewal-connection.js'
import { RenewalWaits } from './agents/renewal-waits.js'

export interface CertificateOptions {
  readonly authority: Authority
  readonly leaf: GatewayLeaf
  readonly leafLifetimeMs: number
  readonly callTimeoutMs: number
  readonly log: Logger
  readonly clock: ClockCheck
  readonly watched: WatchedHosts
  readonly connector: AgentConnector
}

/** Maximum number of accepted certificates of a host. Old ones are accepted until all connections use the newest. */
const keptSerials = 16
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
  /** Problem of the last renewal of an invalid certificate, by host id. It is logged only when it changes. */
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
    const { leaf, log } = this.options
    try {
      if (await leaf.renewIfDue(Date.now(), steadyClock.jumpMs() !== 0))
        log.info({ serial: leaf.current.serial }, 'gateway certificate renewed')
    } catch (error) {
      log.error({ error }, 'the certificate of the gateway could not be renewed')
    }
    for (const watcher of this.options.watched.watchers()) this.#checkHost(watcher)
  }

  #checkHost(watcher: HostWatcher): void {
    const { host, liveConnection: connection } = watcher
    const peer = connection?.peer()
    if (!connection || !peer) return
    const { serials, certificateNotAfterMs } = host.record
    if (!isConnectionGood(host, connection)) return watcher.restart()
    const isOutdated =
      connection.target.leaf.serial !== this.options.leaf.current.serial ||
      (peer.notAfterMs < certificateNotAfterMs && peer.serial !== serials.at(-1))
    if (isOutdated) watcher.refresh()
    const dueAtMs = renewAtMs(certificateNotAfterMs, this.options.leafLifetimeMs)
    if (steadyClock.earliest() >= dueAtMs) void this.#renewOnce(watcher, connection)
    else if (serials.length > 1 && peer.serial === serials.at(-1)) void this.#forgetEarlier(host, peer.serial)
  }

  async #renewOnce(watcher: HostWatcher, connection: AgentConnection): Promise<void> {
    const { host } = watcher
    const { id } = host.record
    if (this.#renewing.has(id) || this.#waits.isWaiting(id, this.#everyMs)) return
    this.#renewing.add(id)
    try {
      await this.#renew(host, connection)
      this.options.log.info({ host: id }, 'agent certificate renewed')
      watcher.refresh()
    } catch (error) {
      this.#waits.failed(id)
      this.options.log.warn({ host: id, error }, 'the certificate of an agent could not be renewed; trying again later')
    } finally {
      this.#renewing.delete(id)
    }
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
      this.options.log.info({ host: id }, 'agent certificate renewed although it was not valid')
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

  async #renew(host: HostState, connection: Pick<RenewalConnection, 'certificates' | 'peer'>): Promise<void> {
    const { certificates } = connection
    const { callTimeoutMs, watched } = this.options
    const options = { step: 'renew certificate', timeoutMs: callTimeoutMs }
    const request = await callAgent(certificates.createSigningRequest.bind(certificates), {}, options)
    const issued = await this.#issue(host, request)
    const hostId = host.record.id
    // Read only after the first call, which establishes the connection: without it, no peer certificate is known.
    const inUse = connection.peer()?.serial
    await watched.update(hostId, (record) => ({
      ...record,
      serials: addSerial(record.serials, issued.serial, inUse),
    }))
    const { certificatePem, notAfterMs } = issued
    await callAgent(certificates.installCertificate.bind(certificates), { certificatePem }, options)
    await watched.update(hostId, (record) => ({ ...record, certificateNotAfterMs: notAfterMs }))
    this.#waits.succeeded(hostId)
  }

  /** Issues a certificate for the host of this connection. An agent can therefore renew only its own certificate. */
  async #issue({ record }: HostState, { csrPem, nowMs }: CreateSigningRequestResponse): Promise<IssuedCertificate> {
    const { authority, clock, leafLifetimeMs } = this.options
    await clock.check({
      ...(nowMs > 0 && { peerMs: nowMs }),
      ...(record.certificateNotAfterMs > 0 && {
        lastIssuedMs: record.certificateNotAfterMs - leafLifetimeMs,
      }),
    })
    return authority.signRequest(csrPem, { role: 'agent', hostId: record.id }, leafLifetimeMs)
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

/** True for messages of OpenSSL (X509_V_ERR_CERT_HAS_EXPIRED, …_NOT_YET_VALID) and Berth, and for codes of Node. */
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

/** Adds a serial number and drops old ones, but never `inUse`, which belongs to the certificate that the agent uses. */
export function addSerial(serials: readonly string[], issued: string, inUse: string | undefined): string[] {
  const others = serials.filter((serial) => serial !== inUse)
  const kept = serials.filter((serial) => serial === inUse)
  return [...kept, ...others.slice(kept.length + 1 - keptSerials), issued]
}
