import { Server } from '@grpc/grpc-js'
import type { AddressInfo, Socket } from 'node:net'
import { createServer, type TLSSocket } from 'node:tls'
import {
  ArchiveServiceService,
  ArchiveStreamServiceService,
  type ArchiveServiceServer,
  type ArchiveStreamServiceServer,
} from '../../proto/gen/berth/agent/v1/archive.js'
import { BackupServiceService, type BackupServiceServer } from '../../proto/gen/berth/agent/v1/backup.js'
import { CertificateServiceService } from '../../proto/gen/berth/agent/v1/certificate.js'
import { GuestServiceService, type GuestServiceServer } from '../../proto/gen/berth/agent/v1/guest.js'
import { ExportServiceService, type ExportServiceServer } from '../../proto/gen/berth/agent/v1/export.js'
import { ImageServiceService, type ImageServiceServer } from '../../proto/gen/berth/agent/v1/image.js'
import { ImportServiceService, type ImportServiceServer } from '../../proto/gen/berth/agent/v1/import.js'
import { HostServiceService, type HostServiceServer } from '../../proto/gen/berth/agent/v1/host.js'
import {
  GuestSettingsServiceService,
  RoutingServiceService,
  type GuestSettingsServiceServer,
  type RoutingServiceServer,
} from '../../proto/gen/berth/agent/v1/network.js'
import { MoveServiceService, type MoveServiceServer } from '../../proto/gen/berth/agent/v1/move.js'
import { OperationServiceService, type OperationServiceServer } from '../../proto/gen/berth/agent/v1/operation.js'
import { SecurityServiceService, type SecurityServiceServer } from '../../proto/gen/berth/agent/v1/security.js'
import { WatchServiceService, type WatchServiceServer } from '../../proto/gen/berth/agent/v1/watch.js'
import { memoryProtocol, transferProtocol } from '../guests/moves/frame-stream.js'
import { consoleProtocol, sparingly } from '../../shared/framed-socket.js'
import { splitHostPort } from '../../shared/join-token.js'
import { certificateService } from './certificates.js'
import type { ConsoleService } from './console-service.js'
import { fenceCalls, type Fences } from './fences.js'
import type { AgentTls } from './tls.js'
import type { TransferService } from './transfer-service.js'

export interface AgentServices {
  archives: ArchiveServiceServer
  archiveStreams: ArchiveStreamServiceServer
  backups: BackupServiceServer
  exports: ExportServiceServer
  guests: GuestServiceServer
  settings: GuestSettingsServiceServer
  routing: RoutingServiceServer
  operations: OperationServiceServer
  images: ImageServiceServer
  imports: ImportServiceServer
  hosts: HostServiceServer
  security: SecurityServiceServer
  watch: { service: WatchServiceServer; close: () => void }
  consoles: ConsoleService
  moves: MoveServiceServer
  transfers: TransferService
}

const transferProtocols: readonly string[] = [transferProtocol, memoryProtocol]

const limits = {
  'grpc.max_receive_message_length': 1024 * 1024,
  'grpc.max_concurrent_streams': 1000,
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 20_000, // much longer than a slow disk can delay the agent
}

type ConnectionInjector = ReturnType<Server['createConnectionInjector']>

/** Time in ms for calls in progress to finish after a stop. */
const graceMs = 1000

export interface ServeOptions {
  readonly listen: string
  readonly identityDir: string
  readonly tls: AgentTls
  readonly fences: Fences
}

/** Starts the gRPC server. @returns a function that stops it; calls in progress then have `graceMs` to finish */
export async function serve(
  { listen, identityDir, tls, fences }: ServeOptions,
  services: AgentServices,
): Promise<() => Promise<void>> {
  // The interceptor for the gateway's role runs before the one for fences, so that only the gateway can raise an epoch.
  const server = new Server({ ...limits, interceptors: [fenceCalls(fences)] })
  server.addService(ArchiveServiceService, services.archives)
  server.addService(ArchiveStreamServiceService, services.archiveStreams)
  server.addService(BackupServiceService, services.backups)
  server.addService(ExportServiceService, services.exports)
  server.addService(GuestServiceService, services.guests)
  server.addService(GuestSettingsServiceService, services.settings)
  server.addService(RoutingServiceService, services.routing)
  server.addService(OperationServiceService, services.operations)
  server.addService(ImageServiceService, services.images)
  server.addService(ImportServiceService, services.imports)
  server.addService(HostServiceService, services.hosts)
  server.addService(SecurityServiceService, services.security)
  server.addService(WatchServiceService, services.watch.service)
  server.addService(MoveServiceService, services.moves)
  server.addService(CertificateServiceService, certificateService(identityDir, tls))
  const bound = await bind(server, listen, tls, services)
  return () => {
    services.watch.close()
    services.consoles.close(graceMs)
    services.transfers.close()
    bound.close()
    return end(server, bound)
  }
}

export interface BoundServer {
  readonly port: number
  /** Stops accepting connections, and ends the open connections without a proven identity. */
  close(): void
  /** Ends the connections for gRPC at once. */
  destroyConnections(): void
}

/**
 * Accepts TLS connections. Passes them to gRPC, or to consoles and transfers, which do not use gRPC. gRPC itself does
 * not listen, because it would report a connection only after the TLS handshake. When the host joins another gateway,
 * connections of the former gateway end after `graceMs`.
 * @param listen address and port as `host:port`; port 0: any free port
 */
export async function bind(
  server: Server,
  listen: string,
  tls: AgentTls,
  others: Partial<Pick<AgentServices, 'consoles' | 'transfers'>> = {},
): Promise<BoundServer> {
  const { consoles, transfers } = others
  let injector = server.createConnectionInjector(tls.credentials)
  const connections = new Set<TLSSocket>()
  const protocols = [...(consoles ? [consoleProtocol] : []), ...(transfers ? transferProtocols : []), 'h2']
  const listener = createServer({ ...tls.options(), ALPNProtocols: protocols }, (socket) => {
    if (socket.alpnProtocol === consoleProtocol) serveConsole(socket, tls, consoles)
    else if (transferProtocols.includes(`${socket.alpnProtocol}`)) transfers?.serve(socket, tls)
    else {
      connections.add(socket)
      socket.once('close', () => connections.delete(socket))
      injector.injectConnection(socket)
    }
  })
  listener.on('connection', (socket: Socket) => tls.guard.watch(socket))
  const address = listen.endsWith(':0') ? { host: listen.slice(0, -2), port: 0 } : splitHostPort(listen)
  await new Promise<void>((done, fail) => {
    listener.once('error', fail)
    listener.listen(address, () => done())
  })
  tls.onReplaced(() => listener.setSecureContext(tls.options()))
  tls.onMoved(() => {
    retire(injector)
    injector = server.createConnectionInjector(tls.credentials)
    consoles?.close(graceMs)
    transfers?.close()
  })
  const close = (): void => {
    listener.close()
    tls.guard.close()
  }
  const destroyConnections = (): void => connections.forEach((socket) => socket.destroy())
  return { port: (listener.address() as AddressInfo).port, close, destroyConnections }
}

/**
 * After the grace period, ends an injector, which passes connections to gRPC. grpc-js (1.14.7) then destroys all its
 * connections, even those that were added during this period. New connections therefore need another injector.
 */
function retire(injector: ConnectionInjector): void {
  injector.drain(graceMs)
  setTimeout(() => injector.destroy(), graceMs).unref()
}

/** Serves a console. Checks the peer's certificate when messages arrive, but at most every 100 ms. */
function serveConsole(socket: TLSSocket, tls: AgentTls, consoles: ConsoleService | undefined): void {
  const certificate = socket.getPeerCertificate()
  const check = (): void => {
    tls.checkPeer(certificate)
    tls.guard.trust(socket)
  }
  consoles?.serve(socket, sparingly(check))
}

/**
 * Ends the server. After the grace period, it does not wait for gRPC any more, because grpc-js (1.14.7) sometimes waits
 * forever for a client that was killed.
 */
function end(server: Server, bound: BoundServer): Promise<void> {
  return new Promise((done) => {
    const force = setTimeout(() => {
      server.forceShutdown()
      bound.destroyConnections()
      done()
    }, graceMs)
    server.tryShutdown(() => {
      clearTimeout(force)
      done()
    })
  })
}
