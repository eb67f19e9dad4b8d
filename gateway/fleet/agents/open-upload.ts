import { Metadata, type ClientDuplexStream } from '@grpc/grpc-js'
import type {
  ReceiveArchiveBegin,
  ReceiveArchiveRequest,
  ReceiveArchiveResponse,
} from '../../../proto/gen/berth/agent/v1/archive.js'
import { untilAborted } from '../../../shared/async/until-aborted.js'
import { BerthError } from '../../../shared/errors.js'
import { fromServiceError } from '../../../shared/grpc-errors.js'
import type { ArchiveUpload } from '../agent-contract.js'
import type { AgentConnection } from './agent-connection.js'
import type { AgentLink } from './agent-link.js'

export interface OpenUploadParts {
  readonly connection: Pick<AgentConnection, 'archiveStreams' | 'holdArchives'>
  readonly link: Pick<AgentLink, 'whileOnline'>
  /** Time in ms for the agent to accept the upload. */
  readonly timeoutMs: number
  /** Time in ms for the agent to request the archive. Default: 10 minutes. */
  readonly wantedMs?: number
}

type Call = ClientDuplexStream<ReceiveArchiveRequest, ReceiveArchiveResponse>
type State = NonNullable<ReceiveArchiveResponse['state']>['$case']

const partBytes = 64 * 1024
/** Time in ms for the host to begin to unpack the archive, while it perhaps carries out earlier tasks. */
const defaultWantedMs = 10 * 60_000
/** Time in ms for the whole upload. The agent has a shorter limit, so only a host that hangs exceeds this one. */
const wholeMs = 25 * 3_600_000

/**
 * Begins the upload of an archive. Resolves when the agent waits for the creation of the guest.
 * @throws {BerthError} the agent's error, `host_offline`, `agent_timeout`
 */
export async function openUpload(
  { connection, link, timeoutMs, wantedMs = defaultWantedMs }: OpenUploadParts,
  begin: ReceiveArchiveBegin,
): Promise<ArchiveUpload> {
  const call = connection.archiveStreams.receiveArchive(new Metadata())
  connection.holdArchives(call) // the upload continues if the gateway replaces its connection to the host
  const upload = new GrpcUpload(
    call,
    link.whileOnline(() => call.cancel()),
    wantedMs,
  )
  try {
    await upload.begin(begin, timeoutMs)
    return upload
  } catch (error) {
    upload.cancel()
    throw error
  }
}

class GrpcUpload implements ArchiveUpload {
  readonly #states: AsyncIterator<ReceiveArchiveResponse>

  constructor(
    private readonly call: Call,
    private readonly forget: () => void,
    private readonly wantedMs: number,
  ) {
    this.#states = call[Symbol.asyncIterator]() as AsyncIterator<ReceiveArchiveResponse>
    call.on('error', () => undefined) // the iterator reports errors, too
  }

  async begin(begin: ReceiveArchiveBegin, timeoutMs: number): Promise<void> {
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      this.call.cancel()
    }, timeoutMs)
    try {
      this.call.write({ part: { $case: 'begin', value: begin } })
      await this.#reached('accepted')
    } catch (error) {
      if (isLate) throw new BerthError('timeout', 'agent_timeout', 'the host does not answer', { cause: error })
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  async send(parts: AsyncIterable<Buffer>, signal: AbortSignal): Promise<void> {
    const failed = new AbortController()
    await unlessLate(untilAborted(this.#reached('wanted'), signal), this.wantedMs)
    const unpacked = this.#reached('unpacked')
    unpacked.catch((error: unknown) => failed.abort(error))
    const sent = this.#sendAll(parts[Symbol.asyncIterator](), AbortSignal.any([signal, failed.signal])).then(() => {
      this.call.end({ part: { $case: 'end', value: {} } })
      return unpacked
    })
    await unlessLate(untilAborted(sent, signal), wholeMs)
    this.forget()
  }

  cancel(): void {
    this.forget()
    this.call.cancel()
  }

  async #sendAll(parts: AsyncIterator<Buffer>, signal: AbortSignal): Promise<void> {
    for (;;) {
      const part = await untilAborted(parts.next(), signal)
      if (part.done) return
      const { value } = part
      for (let at = 0; at < value.length; at += partBytes) await this.#write(value.subarray(at, at + partBytes), signal)
    }
  }

  /**
   * Resolves when the next part can be written. If the call fails, the wait for the next state of the upload rejects
   * with an error for clients, and aborts the signal.
   */
  async #write(data: Buffer, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.call.write({ part: { $case: 'data', value: data } })) return
    await untilAborted(new Promise<void>((resolve) => void this.call.once('drain', () => resolve())), signal)
  }

  /** Waits for the next state of the upload. @throws {BerthError} the agent's error, `host_offline`, `agent_timeout` */
  async #reached(state: State): Promise<void> {
    const step = 'receive archive'
    let message
    try {
      message = await this.#states.next()
    } catch (error) {
      throw fromServiceError(error, { step, left: true })
    }
    if (message.done || message.value.state?.$case !== state)
      throw new BerthError('internal', 'agent_error', `the host has not answered "${step}" as expected`)
  }
}

/** @throws {BerthError} `agent_timeout` */
function unlessLate(promise: Promise<void>, timeoutMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const error = new BerthError('timeout', 'agent_timeout', 'the host did not receive the archive in time')
    timer = setTimeout(() => reject(error), timeoutMs)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}
