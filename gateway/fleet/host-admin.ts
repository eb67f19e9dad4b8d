import { randomUUID } from 'node:crypto'
import { conflict, invalidField, notFound } from '../../shared/errors.js'
import { isHostPort, type JoinAnswer, type JoinRequest } from '../../shared/join-token.js'
import type { FleetAuthority } from '../pki/fleet-authority.js'
import type { HostAdmin, HostChange, HostView, JoinToken } from './contract.js'
import type { ClockCheck } from './agents/clock-check.js'
import type { GuestRegistry } from './placement/guest-registry.js'
import type { InstallReport, UpgradeReport } from '../join/installer.js'
import type { DrainResult, HostRecord } from './host-record.js'
import type { HostStore } from './host-store.js'
import { mergeWindows, type HostWindow } from './host-windows.js'
import { reportedUpgrade } from '../join/host-upgrade.js'
import type { JoinTokens, VerifiedToken } from './join-tokens.js'
import type { FleetState } from './view.js'
import type { WatchedHosts } from './watched-hosts.js'

export interface HostAdminOptions {
  readonly view: FleetState
  readonly store: HostStore
  readonly tokens: JoinTokens
  readonly registry: GuestRegistry
  readonly authority: FleetAuthority
  readonly clock: ClockCheck
  readonly leafLifetimeMs: number
  readonly tokenLifetimeMs: number
  /** Addresses at which agents connect to join, as host:port, beginning with the address of this gateway. */
  readonly joinAddresses: () => readonly string[]
  /** Creates the command that installs the agent on a host and joins it. */
  readonly installCommand: (token: string) => Promise<string>
  readonly watched: WatchedHosts
}

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/

/** Stores administrators' changes of hosts, and issues the first certificate of each host. */
export class StoredHostAdmin implements HostAdmin {
  constructor(private readonly options: HostAdminOptions) {}

  async createHost(
    host: { name: string; address?: string; publicAddress?: string },
    operationId: string = randomUUID(),
  ): Promise<HostView> {
    checkHost(host)
    const id = hostIdOf(operationId)
    const record: HostRecord = {
      id,
      version: 1,
      name: host.name,
      address: host.address ?? '',
      ...(host.publicAddress ? { publicAddress: host.publicAddress } : {}),
      draining: false,
      createdAtMs: Date.now(),
      serials: [],
      certificateNotAfterMs: 0,
    }
    this.options.watched.adopt(await this.options.store.create(record, this.#checkAddress))
    return this.#get(id)
  }

  async createJoinToken(hostId: string): Promise<JoinToken> {
    const { tokens, tokenLifetimeMs, joinAddresses, installCommand, watched } = this.options
    this.#get(hostId)
    const addresses = joinAddresses()
    const made = await tokens.create(hostId, { addresses, lifetimeMs: tokenLifetimeMs })
    await watched.update(hostId, (record) => ({ ...record, joinExpiresAtMs: made.expiresAtMs }))
    return { ...made, address: addresses[0]!, command: await installCommand(made.token) }
  }

  checkJoinToken(token: string): VerifiedToken {
    return this.options.tokens.verify(token)
  }

  async reportInstall(hostId: string, install: InstallReport): Promise<HostView> {
    await this.options.watched.update(hostId, (record) => ({ ...record, install }))
    return this.#get(hostId)
  }

  async reportUpgrade(hostId: string, report: UpgradeReport): Promise<HostView> {
    await this.options.watched.update(hostId, (record) => ({
      ...record,
      upgrade: reportedUpgrade(record.upgrade, report),
    }))
    return this.#get(hostId)
  }

  async updateHost(hostId: string, change: HostChange): Promise<HostView> {
    checkHost(change)
    const check = change.address === undefined ? undefined : this.#checkAddress
    await this.options.watched.update(hostId, (record) => ({ ...record, ...change }), check)
    return this.#get(hostId)
  }

  async recordDrain(hostId: string, drained: DrainResult): Promise<void> {
    await this.options.watched.update(hostId, (record) => ({ ...record, drained }))
  }

  async recordMaintenance(hostId: string, changed: readonly HostWindow[], nowMs: number): Promise<void> {
    await this.options.watched.update(hostId, (record) => ({
      ...record,
      maintenance: mergeWindows(record.maintenance ?? [], changed, nowMs),
    }))
  }

  async removeHost(hostId: string, { force }: { force: boolean }): Promise<void> {
    const { view, store, tokens, registry, watched } = this.options
    this.#get(hostId)
    const guests = view.findState(hostId)?.guests.size ?? 0
    if (guests > 0 && !force)
      throw conflict(
        'invalid_state',
        `the host has ${guests} containers: delete them first, or remove only the host with force=true; the containers stay on it`,
      )
    await tokens.void(hostId)
    await store.remove(hostId)
    watched.forget(hostId)
    await registry.releaseHost(hostId)
  }

  /**
   * Issues the certificate of a joining agent, and revokes earlier certificates of the host. The token determines the
   * host.
   * @param source address of the request. The gateway uses it for connections if the host has no configured address
   * @throws {BerthError} `join_token_invalid`, `invalid_csr`, `store_unavailable`, `clock_in_doubt`, `address_in_use`
   */
  async join({ token, csr, now_ms, port }: JoinRequest, source: string): Promise<JoinAnswer> {
    const { tokens, authority, clock, leafLifetimeMs, watched } = this.options
    const verified = tokens.verify(token)
    await clock.check(now_ms === undefined ? {} : { peerMs: now_ms })
    const { hostId } = verified
    // The certificate is signed before the token is used, so that the token stays valid after an invalid request.
    const { fingerprint, caPem } = authority
    const issued = await authority.signRequest(csr, { role: 'agent', hostId }, leafLifetimeMs)
    const address = await this.#addressOf(hostId, source, port)
    await tokens.burn(verified)
    const { serial, notAfterMs } = issued
    const certificate = { serials: [serial], certificateNotAfterMs: notAfterMs, issuer: fingerprint }
    const joined = { address, ...certificate, trusted: undefined, joinExpiresAtMs: undefined }
    await watched.update(hostId, (record) => ({ ...record, ...joined }))
    return { host_id: hostId, certificate: issued.certificatePem, ca: caPem, authorities: this.#trustedAfterJoin() }
  }

  /** CAs that a joining host must trust, in PEM. At the end of a rotation, this is only the CA that hosts join with. */
  #trustedAfterJoin(): string[] {
    const { authority } = this.options
    const { joinsWithNext, trusted, caPem } = authority
    return joinsWithNext ? [caPem] : trusted.map((one) => one.caPem)
  }

  /** Returns the configured address of the host, or else the address from which the host joins. */
  async #addressOf(hostId: string, source: string, port: number | undefined): Promise<string> {
    // Uses the store instead of the view, because another gateway could have just created the host.
    const { records } = await this.options.store.list()
    const known = records.find(({ id }) => id === hostId)?.address ?? ''
    if (known !== '' || port === undefined) return known
    const address = `${source.includes(':') ? `[${source}]` : source}:${port}`
    this.#checkAddress(
      { address },
      records.filter(({ id }) => id !== hostId),
    )
    return address
  }

  /** Rejects the address of another host, unless that host is offline. Its server can join again as a new host. */
  readonly #checkAddress = ({ address }: Pick<HostRecord, 'address'>, others: readonly HostRecord[]): void => {
    if (address === '') return
    const holds = (host: HostRecord): boolean =>
      host.address.toLowerCase() === address.toLowerCase() && this.options.view.findHost(host.id)?.state !== 'offline'
    const other = others.find(holds)
    if (other) throw conflict('address_in_use', `the host ${other.name} already has this address`)
  }

  #get(hostId: string): HostView {
    const host = this.options.view.findHost(hostId)
    if (!host) throw notFound('host')
    return host
  }
}

/** Makes a host's id from ten digits of the random `operationId`, so that a repeated request finds the host. */
function hostIdOf(operationId: string): string {
  return `h-${operationId.replaceAll('-', '').slice(0, 10)}`
}

function checkHost({ name, address }: { name?: string; address?: string }): void {
  if (name !== undefined && !namePattern.test(name))
    throw invalidField(
      'name',
      'name: must be 1 to 63 letters, digits, ".", "_" or "-", beginning with a letter or digit',
    )
  if (address !== undefined && !isHostPort(address))
    throw invalidField('address', 'address: must be host:port of the agent, with a port from 1 to 65535')
}
