import { Client, credentials, type ChannelOptions, type ClientOptions } from '@grpc/grpc-js'
import { createSecureContext, type PeerCertificate, type SecureContext } from 'node:tls'
import { ArchiveServiceClient, ArchiveStreamServiceClient } from '../../../proto/gen/berth/agent/v1/archive.js'
import { BackupServiceClient } from '../../../proto/gen/berth/agent/v1/backup.js'
import { CertificateServiceClient } from '../../../proto/gen/berth/agent/v1/certificate.js'
import { ExportServiceClient } from '../../../proto/gen/berth/agent/v1/export.js'
import { GuestServiceClient } from '../../../proto/gen/berth/agent/v1/guest.js'
import { ImageServiceClient } from '../../../proto/gen/berth/agent/v1/image.js'
import { ImportServiceClient } from '../../../proto/gen/berth/agent/v1/import.js'
import { HostServiceClient } from '../../../proto/gen/berth/agent/v1/host.js'
import { GuestSettingsServiceClient, RoutingServiceClient } from '../../../proto/gen/berth/agent/v1/network.js'
import { MoveServiceClient } from '../../../proto/gen/berth/agent/v1/move.js'
import { SecurityServiceClient } from '../../../proto/gen/berth/agent/v1/security.js'
import { OperationServiceClient } from '../../../proto/gen/berth/agent/v1/operation.js'
import { WatchServiceClient } from '../../../proto/gen/berth/agent/v1/watch.js'
import { createPeerCheck, identityDnsName, type CertificateIdentity } from '../../../shared/identity.js'
import { steadyClock } from '../../../shared/steady-clock.js'
import { splitHostPort } from '../../../shared/join-token.js'
import type { KeyedCertificate } from '../../pki/authority.js'
import { openConsole } from '../console-stream.js'
import type { ConsoleListener, ConsoleStream } from '../agent-contract.js'
import type { HostState } from '../host-state.js'
import { LingeringChannel, type EndingCall } from './lingering-channel.js'

/** Maximum message size, to protect the gateway's memory. A guest with a thousand port mappings needs much less. */
const maxMessageBytes = 1024 * 1024
/** Maximum size of an answer about routing, which contains all pools and assignments of a host. */
const maxRoutingBytes = 16 * maxMessageBytes
/** Time in ms after which the idle connection for calls about routing is closed. */
const separateIdleMs = 60_000

export interface AgentTarget {
  readonly hostId: string
  /** Address of the agent as host:port. */
  readonly address: string
  /** Certificates of all trusted CAs, in PEM. */
  readonly caPems: readonly string[]
  readonly leaf: KeyedCertificate
  /** True if the agent's certificate with this serial number is no longer valid for the host. */
  isRevoked(serial: string): boolean
  readonly silenceMs: number
}

/** The TLS settings are cached by certificate, because creating them for each of many hosts is slow. */
const secureContexts = new WeakMap<KeyedCertificate, { readonly trusted: string; readonly context: SecureContext }>()

/** TLS settings for the gateway's connections to an agent. */
export function secureContextOf({ caPems, leaf }: Pick<AgentTarget, 'caPems' | 'leaf'>): SecureContext {
  const known = secureContexts.get(leaf)
  const trusted = caPems.join('')
  if (known?.trusted === trusted) return known.context
  const context = createContext({ caPems, leaf })
  secureContexts.set(leaf, { trusted, context })
  return context
}

function createContext({ caPems, leaf }: Pick<AgentTarget, 'caPems' | 'leaf'>): SecureContext {
  return createSecureContext({
    ca: [...caPems],
    cert: leaf.certificatePem,
    key: leaf.privateKeyPem,
    minVersion: 'TLSv1.3',
    ciphers: 'DEFAULT@SECLEVEL=2',
  })
}

/** Clients for all services of one agent. A new certificate of the gateway needs a new AgentConnection. */
export interface AgentConnection {
  readonly target: AgentTarget
  readonly archives: InstanceType<typeof ArchiveServiceClient>
  readonly archiveStreams: InstanceType<typeof ArchiveStreamServiceClient>
  readonly backups: InstanceType<typeof BackupServiceClient>
  readonly exports: InstanceType<typeof ExportServiceClient>
  readonly guests: InstanceType<typeof GuestServiceClient>
  readonly settings: InstanceType<typeof GuestSettingsServiceClient>
  readonly routing: InstanceType<typeof RoutingServiceClient>
  readonly images: InstanceType<typeof ImageServiceClient>
  readonly imports: InstanceType<typeof ImportServiceClient>
  readonly hosts: InstanceType<typeof HostServiceClient>
  readonly security: InstanceType<typeof SecurityServiceClient>
  readonly operations: InstanceType<typeof OperationServiceClient>
  readonly moves: InstanceType<typeof MoveServiceClient>
  readonly certificates: InstanceType<typeof CertificateServiceClient>
  readonly watch: InstanceType<typeof WatchServiceClient>
  /** Keeps the separate connection for archives open until the call has ended, even if `close` is called before. */
  holdArchives(call: EndingCall): void
  openConsole(listener: ConsoleListener): ConsoleStream
  /** The agent's certificate. `undefined` before the connection is established. */
  peer(): CertificateIdentity | undefined
  close(): void
}

/**
 * Creates clients that connect at their first call, with TLS 1.3. The server must present a certificate of the private
 * CA for exactly this host, so that a call never reaches another agent.
 */
export function connectAgent(target: AgentTarget): AgentConnection {
  const identity = { role: 'agent', hostId: target.hostId } as const
  const check = createPeerCheck({ identity, isRevoked: (serial) => target.isRevoked(serial) })
  let peer: CertificateIdentity | undefined
  let closed = false
  const checkServerIdentity = (_name: string, certificate: PeerCertificate): Error | undefined => {
    // After a failed connection attempt, grpc-js 1.14.7 sometimes connects again although the channel was closed.
    if (closed) return new Error('the connection was closed')
    try {
      peer = check(certificate)
      return undefined
    } catch (error) {
      return error as Error
    }
  }
  const secureContext = secureContextOf(target)
  const channelCredentials = credentials.createFromSecureContext(secureContext, { checkServerIdentity })
  const options = channelOptions(identityDnsName(identity), target.silenceMs)
  const base = new Client(`dns:${target.address}`, channelCredentials, options)
  const shared: ClientOptions = { channelOverride: base.getChannel() }
  // Calls about routing need a separate connection, because grpc-js has only one size limit per connection.
  const routing = new RoutingServiceClient(`dns:${target.address}`, channelCredentials, {
    ...options,
    'grpc.max_receive_message_length': maxRoutingBytes,
    'grpc.client_idle_timeout_ms': separateIdleMs,
  })
  // Exported and imported archives need a separate connection, because their data would delay all other calls.
  const exports = new ExportServiceClient(`dns:${target.address}`, channelCredentials, {
    ...options,
    'grpc.client_idle_timeout_ms': separateIdleMs,
  })
  const bulk: ClientOptions = { channelOverride: exports.getChannel() }
  const archives = new LingeringChannel(() => exports.close())
  const tls = { ...splitHostPort(target.address), servername: identityDnsName(identity), secureContext }
  return {
    target,
    archives: new ArchiveServiceClient('', channelCredentials, shared),
    archiveStreams: new ArchiveStreamServiceClient('', channelCredentials, bulk),
    backups: new BackupServiceClient('', channelCredentials, shared),
    guests: new GuestServiceClient('', channelCredentials, shared),
    settings: new GuestSettingsServiceClient('', channelCredentials, shared),
    routing,
    exports,
    holdArchives: (call) => archives.hold(call),
    openConsole: (listener) => openConsole({ options: { ...tls, checkServerIdentity }, check }, listener),
    images: new ImageServiceClient('', channelCredentials, shared),
    imports: new ImportServiceClient('', channelCredentials, shared),
    hosts: new HostServiceClient('', channelCredentials, shared),
    security: new SecurityServiceClient('', channelCredentials, shared),
    operations: new OperationServiceClient('', channelCredentials, shared),
    moves: new MoveServiceClient('', channelCredentials, shared),
    certificates: new CertificateServiceClient('', channelCredentials, shared),
    watch: new WatchServiceClient('', channelCredentials, shared),
    peer: () => peer,
    close: () => {
      closed = true
      base.close()
      routing.close()
      archives.close()
    },
  }
}

/** True if the agent's certificate on a connection is still valid for the host. Called before every call. */
export function isConnectionGood(
  host: HostState,
  connection: AgentConnection,
  nowMs = steadyClock.earliest(),
): boolean {
  const peer = connection.peer()
  return Boolean(peer && peer.notAfterMs > nowMs && host.record.serials.includes(peer.serial))
}

export function channelOptions(serverName: string, silenceMs: number): ChannelOptions {
  return {
    'grpc.ssl_target_name_override': serverName,
    'grpc.default_authority': serverName,
    // An idle connection is pinged after a third of `silenceMs`, and closed after another third without an answer.
    'grpc.keepalive_time_ms': Math.ceil(silenceMs / 3),
    'grpc.keepalive_timeout_ms': Math.ceil(silenceMs / 3),
    'grpc.keepalive_permit_without_calls': 1,
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 2000,
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc.max_send_message_length': maxMessageBytes,
    'grpc.use_local_subchannel_pool': 1,
    // Uses only the configured address, no proxy from the environment, and no service configuration from DNS.
    'grpc.enable_http_proxy': 0,
    'grpc.service_config_disable_resolution': 1,
    'grpc.enable_retries': 0,
  }
}
