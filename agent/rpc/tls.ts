import { ServerCredentials, ServerInterceptingCall, type ServerInterceptor } from '@grpc/grpc-js'
import { X509Certificate } from 'node:crypto'
import { unwatchFile, watchFile, type Stats } from 'node:fs'
import type { PeerCertificate, SecureContextOptions, TlsOptions } from 'node:tls'
import { BerthError } from '../../shared/errors.js'
import { toStatus } from '../../shared/grpc-errors.js'
import { ConnectionGuard } from '../../shared/connection-guard.js'
import { createPeerCheck, readTransferTicket, type TransferTicket } from '../../shared/identity.js'
import { getIdentity, identityPaths, readRevoked, type AgentIdentity } from '../enrollment/identity.js'

/** Time in ms for which the content of the revocation file is cached. */
const revokedFreshMs = 1000
/** Time in ms within which a running agent notices that `berth-agent join` has replaced its identity. */
const rejoinNoticedMs = 2000
/**
 * Limits of connections without a proven identity. The limits are high, because after its restart, a gateway connects
 * at once for all consoles of a host.
 */
const strangers = { unproven: 384, unprovenPerSource: 256, proveWithinMs: 15_000 }

/**
 * Credentials that check the gateway's role on every call, so that no handler can forget the check. The listener itself
 * provides TLS (see `bind`).
 */
class GatewayOnlyCredentials extends ServerCredentials {
  constructor(private readonly interceptors: ServerInterceptor[]) {
    super(null)
  }

  override _getInterceptors(): ServerInterceptor[] {
    return this.interceptors
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other
  }
}

// Security level 2 refuses SHA-1 and short keys in the whole chain (SSL_CTX_set_security_level(3)).
const tlsRules = { minVersion: 'TLSv1.3', ciphers: 'DEFAULT@SECLEVEL=2' } as const

export interface AgentTls {
  readonly credentials: ServerCredentials
  /** Returns options for new connections: TLS 1.3, with client certificates that are checked against trusted CAs. */
  options(): TlsOptions
  /** Registers a listener that is called after `reload`, because the result of `options` may have changed. */
  onReplaced(listener: () => void): void
  /** @throws {BerthError} `bad_certificate` if the certificate does not belong to the gateway, or is not valid now */
  checkPeer(certificate: PeerCertificate | undefined): void
  /** Reads a ticket for a transfer to this host. @throws {BerthError} `bad_certificate` */
  readTicket(certificate: PeerCertificate | undefined): TransferTicket
  /** Limits connections until the gateway makes its first call on them. */
  readonly guard: ConnectionGuard
  identity(): AgentIdentity
  /** Reads the identity again, for new connections. Must be called after a certificate was installed. */
  reload(): AgentIdentity
  /**
   * Registers a listener. It is called when the host has joined another gateway or has another host id. Connections
   * that were opened before belong to the former gateway.
   */
  onMoved(listener: (identity: AgentIdentity) => void): void
  /** Stops watching for a replacement of the identity by `berth-agent join`. */
  close(): void
}

/**
 * @param identityDir directory with the identity that `join` has written: `<state_dir>/identity`
 * @throws {BerthError} `not_joined`, or `bad_identity` if the file is damaged
 */
export function createServerCredentials(identityDir: string): AgentTls {
  let identity = getIdentity(identityDir)
  let check = gatewayCheck(identityDir, identity)
  const movedListeners: ((identity: AgentIdentity) => void)[] = []
  const guard = new ConnectionGuard(strangers)
  const replacedListeners: (() => void)[] = []
  const checkPeer: AgentTls['checkPeer'] = (peer) => void check(peer)
  const credentials = new GatewayOnlyCredentials([gatewayOnly(checkPeer, guard)])
  const reload = (): AgentIdentity => {
    const before = identity
    identity = getIdentity(identityDir)
    check = gatewayCheck(identityDir, identity)
    for (const listener of replacedListeners) listener()
    if (hasMoved(before, identity)) for (const listener of movedListeners) listener(identity)
    return identity
  }
  const close = onIdentityReplaced(identityDir, reload)
  return {
    credentials,
    guard,
    checkPeer,
    readTicket: (peer) => {
      return readTransferTicket(peer, { issuers: issuersOf(identity), toHostId: identity.hostId })
    },
    identity: () => identity,
    reload,
    options: () => ({ requestCert: true, rejectUnauthorized: true, ...tlsRules, ...contextOf(identity) }),
    onReplaced: (listener) => replacedListeners.push(listener),
    onMoved: (listener) => movedListeners.push(listener),
    close,
  }
}

/** True if the host id differs, or if all CAs differ (another fleet). A rotation never replaces all CAs at once. */
function hasMoved(before: AgentIdentity, after: AgentIdentity): boolean {
  return before.hostId !== after.hostId || !before.authorities.some((pem) => after.authorities.includes(pem))
}

const issuersOf = ({ authorities }: AgentIdentity): X509Certificate[] =>
  authorities.map((pem) => new X509Certificate(pem))

/**
 * Makes a running agent use an identity that `berth-agent join` has written, without a restart.
 * @returns a function that ends this watch
 */
function onIdentityReplaced(identityDir: string, reload: () => AgentIdentity): () => void {
  const { identity } = identityPaths(identityDir)
  const listener = (now: Stats): void => {
    if (now.size === 0) return
    try {
      reload()
    } catch (error) {
      // As long as the file is invalid, the agent continues to use its present identity.
      if (!(error instanceof BerthError)) throw error
    }
  }
  watchFile(identity, { interval: rejoinNoticedMs, persistent: false }, listener)
  return () => unwatchFile(identity, listener)
}

type PeerCheck = ReturnType<typeof createPeerCheck>

/**
 * Returns an interceptor that checks the peer of each call. A call gets UNAUTHENTICATED if its peer is not the gateway,
 * or if the peer's certificate expires or is revoked during a stream.
 */
function gatewayOnly(check: AgentTls['checkPeer'], guard: ConnectionGuard): ServerInterceptor {
  return (_method, call) => {
    const { sslPeerCertificate } = call.getAuthContext()
    const unlessRefused = (proceed: () => void): void => {
      try {
        check(sslPeerCertificate)
      } catch (error) {
        return call.sendStatus(toStatus(error))
      }
      proceed()
    }
    const begin = (proceed: () => void): void =>
      unlessRefused(() => {
        guard.trust(call.getConnectionInfo())
        proceed()
      })
    return new ServerInterceptingCall(call, {
      start: (next) => next({ onReceiveMetadata: (metadata, proceed) => begin(() => proceed(metadata)) }),
      sendMessage: (message, next) => unlessRefused(() => next(message)),
    })
  }
}

function gatewayCheck(identityDir: string, agent: AgentIdentity): PeerCheck {
  let revoked: ReadonlySet<string> = new Set()
  let readAtMs = -Infinity
  const isRevoked = (serial: string): boolean => {
    if (performance.now() - readAtMs >= revokedFreshMs) {
      revoked = readRevoked(identityDir)
      readAtMs = performance.now()
    }
    return revoked.has(serial)
  }
  return createPeerCheck({ identity: { role: 'gateway' }, issuers: issuersOf(agent), isRevoked })
}

function contextOf(identity: AgentIdentity): SecureContextOptions {
  return { ca: [...identity.authorities], cert: identity.certificatePem, key: identity.privateKeyPem }
}
