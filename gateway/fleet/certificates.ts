import type { Logger } from 'pino'
import type { Authority } from '../pki/authority.js'
import { renewAtMs, type GatewayLeaf } from '../pki/gateway-leaf.js'
import { callAgent } from './agent-client.js'
import type { AgentConnection } from './agent-connection.js'
import type { HostRecord } from './host-record.js'
import type { HostState } from './host-state.js'
import type { HostWatcher } from './host-watcher.js'

export interface CertificateOptions {
  readonly authority: Authority
  readonly leaf: GatewayLeaf
  readonly leafLifetimeMs: number
  readonly callTimeoutMs: number
  readonly log: Logger
  readonly hosts: () => Iterable<{ host: HostState; watcher: HostWatcher }>
  readonly updateRecord: (hostId: string, change: (record: HostRecord) => HostRecord) => Promise<void>
}

/** How many certificates of a host are accepted at a time, while connections move to a new one. */
const keptSerials = 16

/**
 * Renews the gateway's and the agents' certificates. New connections use them; the present connection serves until its
 * successor is in sync.
 */
export class CertificateKeeper {
  #timer: NodeJS.Timeout | undefined
  readonly #renewing = new Set<string>()

  constructor(private readonly options: CertificateOptions) {}

  start(): void {
    const everyMs = Math.max(100, Math.min(30_000, this.options.leafLifetimeMs / 20))
    this.#timer = setInterval(() => void this.check(), everyMs)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  async check(): Promise<void> {
    const { leaf, log } = this.options
    try {
      if (await leaf.renewIfDue()) log.info({ serial: leaf.current.serial }, 'gateway certificate renewed')
    } catch (error) {
      log.error({ error }, 'gateway certificate not renewed')
    }
    for (const { host, watcher } of this.options.hosts()) this.#checkHost(host, watcher)
  }

  #checkHost(host: HostState, watcher: HostWatcher): void {
    const { connection } = watcher
    const peer = connection?.peer()
    if (!connection || !peer) return
    const { serials, certificateNotAfterMs } = host.record
    if (!isConnectionGood(host, connection)) return watcher.restart()
    const isOutdated =
      connection.target.leaf.serial !== this.options.leaf.current.serial ||
      (peer.notAfterMs < certificateNotAfterMs && peer.serial !== serials.at(-1))
    if (isOutdated) watcher.refresh()
    const dueAtMs = renewAtMs(certificateNotAfterMs, this.options.leafLifetimeMs)
    if (Date.now() >= dueAtMs) void this.#renewOnce(host, connection, watcher)
    else if (serials.length > 1 && peer.serial === serials.at(-1)) void this.#forgetEarlier(host, peer.serial)
  }

  async #renewOnce(host: HostState, connection: AgentConnection, watcher: HostWatcher): Promise<void> {
    const { id } = host.record
    if (this.#renewing.has(id)) return
    this.#renewing.add(id)
    try {
      await this.#renew(id, connection)
      this.options.log.info({ host: id }, 'agent certificate renewed')
      watcher.refresh()
    } catch (error) {
      this.options.log.warn({ host: id, error }, 'agent certificate not renewed; it will be tried again')
    } finally {
      this.#renewing.delete(id)
    }
  }

  async #renew(hostId: string, connection: AgentConnection): Promise<void> {
    const { authority, callTimeoutMs, leafLifetimeMs, updateRecord } = this.options
    const { certificates } = connection
    const options = { step: 'renew certificate', timeoutMs: callTimeoutMs }
    const { csrPem } = await callAgent(certificates.createSigningRequest.bind(certificates), {}, options)
    // Host and role are the connection's own: an agent can renew only its own certificate.
    const issued = await authority.signRequest(csrPem, { role: 'agent', hostId }, leafLifetimeMs)
    const inUse = connection.peer()?.serial
    await updateRecord(hostId, (record) => ({
      ...record,
      serials: addSerial(record.serials, issued.serial, inUse),
    }))
    const { certificatePem, notAfterMs } = issued
    await callAgent(certificates.installCertificate.bind(certificates), { certificatePem }, options)
    await updateRecord(hostId, (record) => ({ ...record, certificateNotAfterMs: notAfterMs }))
  }

  /** Revokes earlier certificates once every gateway had time to move to the newest. */
  async #forgetEarlier(host: HostState, serial: string): Promise<void> {
    const { leafLifetimeMs, log, updateRecord } = this.options
    const issuedAtMs = host.record.certificateNotAfterMs - leafLifetimeMs
    if (Date.now() < issuedAtMs + Math.min(60_000, leafLifetimeMs / 4)) return
    try {
      await updateRecord(host.record.id, (record) =>
        record.serials.at(-1) === serial ? { ...record, serials: [serial] } : record,
      )
    } catch (error) {
      log.warn({ host: host.record.id, error }, 'earlier certificates not forgotten yet')
    }
  }
}

/** Keeps the serial in use, however many certificates the agent failed to install. */
export function addSerial(serials: readonly string[], issued: string, inUse: string | undefined): string[] {
  const others = serials.filter((serial) => serial !== inUse)
  const kept = serials.filter((serial) => serial === inUse)
  return [...kept, ...others.slice(kept.length + 1 - keptSerials), issued]
}

/** Whether a connection's certificate is still valid for the host; checked for every call. */
export function isConnectionGood(host: HostState, connection: AgentConnection, nowMs = Date.now()): boolean {
  const peer = connection.peer()
  return Boolean(peer && peer.notAfterMs > nowMs && host.record.serials.includes(peer.serial))
}
