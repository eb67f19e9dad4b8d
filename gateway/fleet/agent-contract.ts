import type { ArchiveServiceService, ReceiveArchiveBegin } from '../../proto/gen/berth/agent/v1/archive.js'
import type { SecurityServiceService } from '../../proto/gen/berth/agent/v1/security.js'
import type { BackupServiceService } from '../../proto/gen/berth/agent/v1/backup.js'
import type { ServiceError } from '@grpc/grpc-js'
import type { Readable } from 'node:stream'
import type { ExportGuestRequest } from '../../proto/gen/berth/agent/v1/export.js'
import type { Fence } from '../../shared/fence.js'
import type { ConsoleRequest, ConsoleResponse } from '../../shared/console-frames.js'
import type { GuestServiceService } from '../../proto/gen/berth/agent/v1/guest.js'
import type { HostServiceService } from '../../proto/gen/berth/agent/v1/host.js'
import type { ImageServiceService } from '../../proto/gen/berth/agent/v1/image.js'
import type { ImportServiceService } from '../../proto/gen/berth/agent/v1/import.js'
import type { GuestSettingsServiceService, RoutingServiceService } from '../../proto/gen/berth/agent/v1/network.js'
import type { MoveServiceService } from '../../proto/gen/berth/agent/v1/move.js'
import type { OperationServiceService } from '../../proto/gen/berth/agent/v1/operation.js'

/**
 * The calls of a gRPC service as functions that return promises. A call can contain a fence, which proves that the
 * caller holds a lease. The call fails with `stale_epoch` if another gateway holds the lease now.
 */
export type Calls<Service> = {
  readonly [Name in keyof Service]: Service[Name] extends {
    requestSerialize: (request: infer Request) => Buffer
    responseDeserialize: (bytes: Buffer) => infer Response
  }
    ? (request: Request, fence?: Fence) => Promise<Response>
    : never
}

export type SettingsCalls = Calls<typeof GuestSettingsServiceService>
export type OperationCalls = Calls<typeof OperationServiceService>
export type ImageCalls = Calls<typeof ImageServiceService>
export type RoutingCalls = Calls<typeof RoutingServiceService>

/** Connection of a console to the agent of the guest's host. The first message must be `start`. */
export interface ConsoleStream {
  /** True while the agent's output is paused. */
  readonly isPaused: boolean
  send(message: ConsoleRequest): void
  /** Ends the connection after pending data was sent. */
  end(): void
  cancel(): void
  pause(): void
  resume(): void
}

/** Messages of an agent for an open console. */
export type ConsoleOutput = Exclude<ConsoleResponse, { $case: 'refusal' }>

export interface ConsoleListener {
  onMessage(message: ConsoleOutput): void
  /** Called exactly once, at the end of the connection. @param error error to pass to `fromServiceError` */
  onEnd(error: ServiceError): void
}

export type ConsoleOpener = (listener: ConsoleListener) => ConsoleStream

/** An archive on its way to an agent. */
export interface ArchiveUpload {
  /**
   * Sends the archive as fast as the agent takes it. Resolves when all files are on the disk of the guest.
   * @param signal ends the wait for the agent, but not the upload
   * @throws {BerthError} the agent's error; the error of `parts`; the signal's reason when aborted
   */
  send(parts: AsyncIterable<Buffer>, signal: AbortSignal): Promise<void>
  /** Ends the upload. The agent then undoes the creation of the guest, unless the archive is unpacked. */
  cancel(): void
}

/**
 * Calls to the agent of one host. A call waits for a connection while the host is online, and fails when the host goes
 * offline. Calls throw the agent's BerthError, `host_offline` or `agent_timeout`.
 */
export interface AgentClient {
  readonly archives: Calls<typeof ArchiveServiceService>
  /** `listBackups` can take a minute, because the agent waits for the backup target. */
  readonly backups: Calls<typeof BackupServiceService>
  readonly guests: Calls<typeof GuestServiceService>
  readonly settings: SettingsCalls
  readonly routing: RoutingCalls
  readonly images: ImageCalls
  readonly imports: Calls<typeof ImportServiceService>
  readonly hosts: Calls<typeof HostServiceService>
  readonly moves: Calls<typeof MoveServiceService>
  readonly security: Calls<typeof SecurityServiceService>
  /**
   * Begins an export of a guest, and returns the archive. If the archive is destroyed, the agent ends the export.
   * @throws {BerthError} if the agent refuses the export
   */
  exportGuest(request: ExportGuestRequest): Promise<Readable>
  /**
   * Begins the upload of an archive from which a guest will be created.
   * @throws {BerthError} if the agent refuses the upload
   */
  receiveArchive(begin: ReceiveArchiveBegin): Promise<ArchiveUpload>
  /** Waits for a connection to the agent. The returned function opens a console. */
  consoleOpener(): Promise<ConsoleOpener>
  /** Calls about operations. `getOperation` has a shorter timeout than the other calls. */
  readonly operations: OperationCalls
}
