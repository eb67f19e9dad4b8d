import { Client, credentials, type ChannelOptions, type ClientOptions } from '@grpc/grpc-js'
import { createSecureContext, type PeerCertificate, type SecureContext } from 'node:tls'
import { BackupServiceClient } from '../../../proto/gen/berth/agent/v1/backup.js'
import { CertificateServiceClient } from '../../../proto/gen/berth/agent/v1/certificate.js'
import { GuestServiceClient } from '../../../proto/gen/berth/agent/v1/guest.js'
import { ImageServiceClient } from '../../../proto/gen/berth/agent/v1/image.js'
import { HostServiceClient } from '../../../proto/gen/berth/agent/v1/host.js'
import { GuestSettingsServiceClient, RoutingServiceClient } from '../../../proto/gen/berth/agent/v1/network.js'
import { SecurityServiceClient } from '../../../proto/gen/berth/agent/v1/security.js'
import { OperationServiceClient } from '../../../proto/gen/berth/agent/v1/operation.js'
import { WatchServiceClient } from '../../../proto/gen/berth/agent/v1/watch.js'
import { createPeerCheck, identityDnsName, type CertificateIdentity } from '../../../shared/identity.js'
import { steadyClock } from '../../../shared/steady-clock.js'
import { splitHostPort } from '../../../shared/join-token.js'
import type { KeyedCertificate } from '../../pki/authority.js'
import { openConsole } from '../console-stream.js'
import type { ConsoleListener, ConsoleStream } from '../contract.js'
import type { HostState } from '../host-state.js'

/** Well above a guest with a thousand port mappings; keeps an agent from filling the gateway's memory. */
const maxMessageBytes = 1024 * 1024
/** An answer has all pools and assignments of a host; few are asked for at a time. */
const maxRoutingBytes = 16 * maxMessageBytes
/** How long a separate connection stays after the last one. */
const separateIdleMs = 60_000

export interface AgentTarget {
  readonly hostId: string
  /** host:port. */
  readonly address: string
  readonly caPem: string
  /** The gateway's certificate. */
  readonly leaf: KeyedCertificate
  /** True if an agent's certificate is no longer valid for this host. */
  isRevoked(serial: string): boolean
  readonly silenceMs: number
}

/** TLS of the gateway's connections to an agent. */
export function secureContextOf({ caPem, leaf }: Pick<AgentTarget, 'caPem' | 'leaf'>): SecureContext {
  return createSecureContext({
    ca: caPem,
    cert: leaf.certificatePem,
    key: leaf.privateKeyPem,
    minVersion: 'TLSv1.3',
    ciphers: 'DEFAULT@SECLEVEL=2',
  })
}

/** Clients of one agent; replaced as a whole when a certificate changes. */
export interface AgentConnection {
  readonly target: AgentTarget
  readonly backups: InstanceType<typeof BackupServiceClient>
  readonly guests: InstanceType<typeof GuestServiceClient>
  readonly settings: InstanceType<typeof GuestSettingsServiceClient>
  readonly routing: InstanceType<typeof RoutingServiceClient>
  readonly images: InstanceType<typeof ImageServiceClient>
  readonly hosts: InstanceType<typeof HostServiceClient>
  readonly security: InstanceType<typeof SecurityServiceClient>
  readonly operations: InstanceType<typeof OperationServiceClient>
  readonly certificates: InstanceType<typeof CertificateServiceClient>
  readonly watch: InstanceType<typeof WatchServiceClient>
  openConsole(listener: ConsoleListener): ConsoleStream
  /** The agent's certificate, once connected. */
  peer(): CertificateIdentity | undefined
  close(): void
}

/**
 * Connects lazily, with TLS 1.3. The server must show a certificate of the private CA for exactly this host, so an
 * existing connection is to the right agent.
 */
export function connectAgent(target: AgentTarget): AgentConnection {
  const identity = { role: 'agent', hostId: target.hostId } as const
  const check = createPeerCheck({ identity, isRevoked: (serial) => target.isRevoked(serial) })
  let peer: CertificateIdentity | undefined
  let closed = false
  const checkServerIdentity = (_name: string, certificate: PeerCertificate): Error | undefined => {
    // A channel that is closed while it waits after a failure connects once more (grpc-js 1.14.7): nobody would close
    // that connection.
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
  // grpc-js has one size limit per connection, so these calls use a connection of their own.
  const routing = new RoutingServiceClient(`dns:${target.address}`, channelCredentials, {
    ...options,
    'grpc.max_receive_message_length': maxRoutingBytes,
    'grpc.client_idle_timeout_ms': separateIdleMs,
  })
  const tls = { ...splitHostPort(target.address), servername: identityDnsName(identity), secureContext }
  return {
    target,
    backups: new BackupServiceClient('', channelCredentials, shared),
    guests: new GuestServiceClient('', channelCredentials, shared),
    settings: new GuestSettingsServiceClient('', channelCredentials, shared),
    routing,
    openConsole: (listener) => openConsole({ options: { ...tls, checkServerIdentity }, check }, listener),
    images: new ImageServiceClient('', channelCredentials, shared),
    hosts: new HostServiceClient('', channelCredentials, shared),
    security: new SecurityServiceClient('', channelCredentials, shared),
    operations: new OperationServiceClient('', channelCredentials, shared),
    certificates: new CertificateServiceClient('', channelCredentials, shared),
    watch: new WatchServiceClient('', channelCredentials, shared),
    peer: () => peer,
    close: () => {
      closed = true
      base.close()
      routing.close()
    },
  }
}

/** True if a connection's certificate is still valid for the host; checked for every call. */
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
    // A peer that answers no ping is given up after two thirds of the allowed silence.
    'grpc.keepalive_time_ms': Math.ceil(silenceMs / 3),
    'grpc.keepalive_timeout_ms': Math.ceil(silenceMs / 3),
    'grpc.keepalive_permit_without_calls': 1,
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 2000,
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc.max_send_message_length': maxMessageBytes,
    'grpc.use_local_subchannel_pool': 1,
    // Connects to the administrator's address only, ignoring proxies of the environment and hints of DNS.
    'grpc.enable_http_proxy': 0,
    'grpc.service_config_disable_resolution': 1,
    'grpc.enable_retries': 0,
  }
}
