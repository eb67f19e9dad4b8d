import { Server, type UntypedHandleCall } from '@grpc/grpc-js'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { bind, type BoundServer } from '../../../agent/rpc/server.js'
import { createServerCredentials, type AgentTls } from '../../../agent/rpc/tls.js'
import { unary } from '../../../agent/rpc/unary.js'
import {
  ArchiveStreamServiceService,
  type ArchiveStreamServiceServer,
} from '../../../proto/gen/berth/agent/v1/archive.js'
import { GuestServiceService } from '../../../proto/gen/berth/agent/v1/guest.js'
import { Operation, OperationServiceService } from '../../../proto/gen/berth/agent/v1/operation.js'
import {
  WatchServiceService,
  type WatchResponse,
  type WatchServiceServer,
} from '../../../proto/gen/berth/agent/v1/watch.js'
import { nodeArguments } from '../programs.js'
import { silentLog } from '../gateway/redis.js'

export type WatchEvent = NonNullable<WatchResponse['event']>

export interface RogueOptions {
  /** Returns the events that the agent sends to a watch. They may be false. */
  readonly events?: (hostId: string) => readonly WatchEvent[]
  /** If true, the agent sends changes without end after those that `events` returns. */
  readonly flood?: boolean
  /** Returns or throws the answer to every call about guests and operations. */
  readonly onCall?: () => unknown
  readonly onGetOperation?: (id: string) => Operation | Promise<Operation>
  /** Address to listen at, as host:port. By default a free port of 127.0.0.1. */
  readonly listen?: string
  /** Receives the calls that send archives. */
  readonly onArchive?: ArchiveStreamServiceServer['receiveArchive']
  /** Receives console connections. If absent, the agent acts like an earlier version without consoles. */
  readonly onConsole?: (socket: Socket) => void
}

/** An agent with a valid certificate that answers and acts as a test determines, without a host and a journal. */
export class RogueAgent {
  private constructor(
    private readonly server: Server,
    private readonly bound: BoundServer,
    readonly tls: AgentTls,
  ) {}

  get address(): string {
    return `127.0.0.1:${this.bound.port}`
  }

  static async start(identityDir: string, options: RogueOptions = {}): Promise<RogueAgent> {
    const tls = createServerCredentials(identityDir)
    const server = new Server({ 'grpc.max_concurrent_streams': 1000 })
    server.addService(WatchServiceService, rogueWatch(options, tls.identity().hostId))
    const { onCall, onGetOperation } = options
    if (onCall) server.addService(GuestServiceService, answersOf(GuestServiceService, onCall))
    if (onCall && !onGetOperation)
      server.addService(OperationServiceService, answersOf(OperationServiceService, onCall) as never)
    if (onGetOperation)
      server.addService(OperationServiceService, {
        ...answersOf(OperationServiceService, () => ({})),
        getOperation: unary<{ id: string }, unknown>(silentLog, 'get', async ({ id }) => ({
          operation: await onGetOperation(id),
        })),
      })
    const { onArchive, onConsole } = options
    if (onArchive) server.addService(ArchiveStreamServiceService, { receiveArchive: onArchive })
    const consoles = onConsole && { serve: onConsole, close: () => undefined }
    const bound = await bind(server, options.listen ?? '127.0.0.1:0', tls, consoles ? { consoles } : {})
    return new RogueAgent(server, bound, tls)
  }

  stop(): void {
    this.bound.close()
    this.server.forceShutdown()
    this.tls.close()
  }

  async destroy(): Promise<void> {
    return Promise.resolve(this.stop())
  }
}

/** Makes every method of a service return the same answer. */
function answersOf(service: object, answer: () => unknown): Record<string, UntypedHandleCall> {
  const handle = unary(silentLog, 'rogue', async () => answer())
  return Object.fromEntries(Object.keys(service).map((method) => [method, handle]))
}

function rogueWatch({ events, flood: isFlood = false }: RogueOptions, hostId: string): WatchServiceServer {
  return {
    watch: (call) => {
      let revision = 0
      const send = (event: WatchEvent): boolean => call.write({ revision: ++revision, event, completeRevision: 0 })
      call.on('error', () => undefined)
      send({ $case: 'reset', value: {} })
      events?.(hostId).forEach(send)
      send({ $case: 'synced', value: { epoch: 'rogue' } })
      if (!isFlood) return
      const stage = 'x'.repeat(5000)
      const flood = (): void => {
        while (!call.destroyed && !call.cancelled) {
          const value = Operation.fromPartial({ id: `op-${revision % 50_000}`, stage, createdAtMs: revision })
          if (!send({ $case: 'operation', value })) return void call.once('drain', flood)
        }
      }
      flood()
    },
  }
}

export interface RogueAgentProcess {
  readonly address: string
  signal(signal: NodeJS.Signals): void
  stop(): void
}

/** Starts an agent as a separate process. @param args arguments of lab-agent-main.ts */
export async function startAgentProcess(args: readonly string[]): Promise<RogueAgentProcess> {
  const child = spawn(process.execPath, nodeArguments('test/support/memory/lab-agent-main.ts', ...args), {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'exit').then(() => {
      throw new Error('the agent ended')
    }),
  ])) as [Buffer]
  const { address } = JSON.parse(line.toString()) as { address: string }
  return {
    address,
    signal: (signal) => void child.kill(signal),
    stop: () => void child.kill('SIGKILL'),
  }
}
