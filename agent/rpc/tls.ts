import { ServerCredentials, ServerInterceptingCall, type ServerInterceptor } from '@grpc/grpc-js'
import { X509Certificate } from 'node:crypto'
import { watchFile } from 'node:fs'
import type { SecureContextOptions } from 'node:tls'
import { BerthError } from '../../shared/errors.js'
import { toStatus } from '../../shared/grpc-errors.js'
import { ConnectionGuard } from '../../shared/connection-guard.js'
import { createPeerCheck } from '../../shared/identity.js'
import { getIdentity, identityPaths, readRevoked, type AgentIdentity } from '../enrollment/identity.js'

/** How long a revocation file is trusted unread. */
const revokedFreshMs = 1000
/** A new `join` of a running agent is noticed within this. */
const rejoinNoticedMs = 2000
/** Only a gateway's own few connections ever get further. */
const strangers = { unproven: 128, unprovenPerSource: 32, proveWithinMs: 5000 }

/**
 * TLS of the agent's gRPC server: TLS 1.3, client certificates demanded and checked against the private CA,
 * and on every call the gateway's role. The check is part of the credentials: no handler can forget it.
 */
class AgentServerCredentials extends ServerCredentials {
  readonly #interceptors: ServerInterceptor[]

  constructor(context: SecureContextOptions, interceptors: ServerInterceptor[]) {
    super({ requestCert: true, rejectUnauthorized: true, ...tlsRules }, { ...context, ...tlsRules })
    this.#interceptors = interceptors
  }

  /** New connections use `context`. */
  replace(context: SecureContextOptions): void {
    this.updateSecureContextOptions({ ...context, ...tlsRules })
  }

  override _getInterceptors(): ServerInterceptor[] {
    return this.#interceptors
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other
  }
}

// Level 2 refuses SHA-1 and short keys anywhere in the chain (SSL_CTX_set_security_level(3)).
const tlsRules = { minVersion: 'TLSv1.3', ciphers: 'DEFAULT@SECLEVEL=2' } as const

export interface AgentTls {
  readonly credentials: ServerCredentials
  /** Of the connections on which no call was the gateway's yet. */
  readonly guard: ConnectionGuard
  /** The identity in use. */
  identity(): AgentIdentity
  /** Reads the identity again; connections made from then on use it. Call after a certificate was installed. */
  reload(): AgentIdentity
  /** Called when the host has joined as another, or another gateway: who is connected belongs to the former. */
  onMoved(listener: (identity: AgentIdentity) => void): void
}

/**
 * @param identityDir where `join` put the identity: `<state_dir>/identity`
 * @throws {BerthError} `not_joined`, or `bad_identity` when the file is damaged
 */
export function createServerCredentials(identityDir: string): AgentTls {
  let identity = getIdentity(identityDir)
  let check = gatewayCheck(identityDir, identity)
  const movedListeners: ((identity: AgentIdentity) => void)[] = []
  const guard = new ConnectionGuard(strangers)
  const interceptor = gatewayOnly((peer) => check(peer), guard)
  const credentials = new AgentServerCredentials(contextOf(identity), [interceptor])
  const reload = (): AgentIdentity => {
    const before = identity
    identity = getIdentity(identityDir)
    check = gatewayCheck(identityDir, identity)
    credentials.replace(contextOf(identity))
    if (hasMoved(before, identity)) for (const listener of movedListeners) listener(identity)
    return identity
  }
  onIdentityReplaced(identityDir, reload)
  return {
    ...{ credentials, guard, identity: () => identity, reload },
    onMoved: (listener) => movedListeners.push(listener),
  }
}

function hasMoved(before: AgentIdentity, after: AgentIdentity): boolean {
  return before.hostId !== after.hostId || before.caPem !== after.caPem
}

/** `berth-agent join` beside a running agent: the new identity is taken over without a restart. */
function onIdentityReplaced(identityDir: string, reload: () => AgentIdentity): void {
  const { identity } = identityPaths(identityDir)
  watchFile(identity, { interval: rejoinNoticedMs, persistent: false }, (now) => {
    if (now.size === 0) return
    try {
      reload()
    } catch (error) {
      // Nobody to answer to: the present identity stays in use until a good one is there.
      if (!(error instanceof BerthError)) throw error
    }
  })
}

type PeerCheck = ReturnType<typeof createPeerCheck>

/**
 * Server interceptor: a peer that is not the gateway gets UNAUTHENTICATED, also one that no longer is while a stream
 * goes on. Part of the credentials already.
 */
function gatewayOnly(check: PeerCheck, guard: ConnectionGuard): ServerInterceptor {
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

function gatewayCheck(identityDir: string, { caPem }: AgentIdentity): PeerCheck {
  let revoked: ReadonlySet<string> = new Set()
  let readAtMs = 0
  const isRevoked = (serial: string): boolean => {
    if (Date.now() - readAtMs >= revokedFreshMs) {
      revoked = readRevoked(identityDir)
      readAtMs = Date.now()
    }
    return revoked.has(serial)
  }
  return createPeerCheck({ identity: { role: 'gateway' }, issuer: new X509Certificate(caPem), isRevoked })
}

function contextOf(identity: AgentIdentity): SecureContextOptions {
  return { ca: identity.caPem, cert: identity.certificatePem, key: identity.privateKeyPem }
}
