import { Server } from '@grpc/grpc-js'
import { CertificateServiceService } from '../../proto/gen/berth/agent/v1/certificate.js'
import { GuestServiceService, type GuestServiceServer } from '../../proto/gen/berth/agent/v1/guest.js'
import { HostServiceService, type HostServiceServer } from '../../proto/gen/berth/agent/v1/host.js'
import {
  GuestSettingsServiceService,
  RoutingServiceService,
  type GuestSettingsServiceServer,
  type RoutingServiceServer,
} from '../../proto/gen/berth/agent/v1/network.js'
import {
  OperationServiceService,
  type OperationServiceServer,
} from '../../proto/gen/berth/agent/v1/operation.js'
import { WatchServiceService, type WatchServiceServer } from '../../proto/gen/berth/agent/v1/watch.js'
import { certificateService } from './certificates.js'
import { createServerCredentials } from './tls.js'

export interface AgentServices {
  guests: GuestServiceServer
  settings: GuestSettingsServiceServer
  routing: RoutingServiceServer
  operations: OperationServiceServer
  hosts: HostServiceServer
  watch: { service: WatchServiceServer; close: () => void }
}

const limits = {
  'grpc.max_receive_message_length': 1024 * 1024,
  'grpc.max_concurrent_streams': 1000,
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5_000,
}

/** @returns how to end it; calls in progress get a second to finish */
export async function serve(
  listen: string,
  identityDir: string,
  services: AgentServices,
): Promise<() => Promise<void>> {
  const tls = createServerCredentials(identityDir)
  const server = new Server(limits)
  server.addService(GuestServiceService, services.guests)
  server.addService(GuestSettingsServiceService, services.settings)
  server.addService(RoutingServiceService, services.routing)
  server.addService(OperationServiceService, services.operations)
  server.addService(HostServiceService, services.hosts)
  server.addService(WatchServiceService, services.watch.service)
  server.addService(CertificateServiceService, certificateService(identityDir, tls))
  await new Promise<void>((done, fail) =>
    server.bindAsync(listen, tls.credentials, (error) => (error ? fail(error) : done())),
  )
  return () => {
    services.watch.close()
    return end(server)
  }
}

function end(server: Server): Promise<void> {
  return new Promise((done) => {
    const force = setTimeout(() => server.forceShutdown(), 1000)
    server.tryShutdown(() => {
      clearTimeout(force)
      done()
    })
  })
}
