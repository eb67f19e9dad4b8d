import type { ServerWritableStream } from '@grpc/grpc-js'
import { once } from 'node:events'
import type { Logger } from 'pino'
import type {
  ExportGuestRequest,
  ExportGuestResponse,
  ExportServiceServer,
} from '../../proto/gen/berth/agent/v1/export.js'
import { BerthError, toBerthError } from '../../shared/errors.js'
import { toServiceError } from '../../shared/grpc-errors.js'
import type { Exports, OpenExport } from '../exports/exports.js'

export interface ExportServiceParts {
  readonly exports: Pick<Exports, 'open'>
  readonly log: Logger
}

type Call = ServerWritableStream<ExportGuestRequest, ExportGuestResponse>

/** Time in ms after which a client that takes no data is disconnected, because the export's snapshot uses space. */
const stallMs = 120_000
/** Maximum duration of an export in ms. */
const longestMs = 24 * 3_600_000
const partBytes = 64 * 1024

/** Streams archives. The export ends, and its snapshot is deleted, when the call is canceled or its client stalls. */
export function createExportService({ exports, log }: ExportServiceParts): ExportServiceServer {
  return {
    exportGuest: (call) => {
      const gone = new AbortController()
      for (const event of ['cancelled', 'close', 'error'] as const) call.on(event, () => gone.abort())
      serve(exports, call, AbortSignal.any([gone.signal, AbortSignal.timeout(longestMs)])).catch((error: unknown) => {
        const known = toBerthError(error, 'the container could not be exported: see the log of the agent')
        if (known.kind === 'internal' && !gone.signal.aborted)
          log.error({ err: error, guest: call.request.uuid }, 'an export failed')
        call.emit('error', toServiceError(known, 'export guest')) // `destroy` would send no status
      })
    },
  }
}

async function serve(exports: Pick<Exports, 'open'>, call: Call, signal: AbortSignal): Promise<void> {
  const opened = await exports.open(call.request)
  const close = (): void => void opened.close()
  signal.addEventListener('abort', close, { once: true })
  try {
    await send(call, opened, signal)
    call.end()
  } finally {
    signal.removeEventListener('abort', close)
    await opened.close()
  }
}

async function send(call: Call, { parts }: OpenExport, signal: AbortSignal): Promise<void> {
  await write(call, Buffer.alloc(0), signal)
  for await (const part of parts)
    for (let at = 0; at < part.length; at += partBytes) await write(call, part.subarray(at, at + partBytes), signal)
}

/** Resolves when the next part can be written. @throws {BerthError} `agent_timeout` if the client takes no data */
async function write(call: Call, data: Buffer, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  if (call.write({ data })) return
  const stalled = AbortSignal.timeout(stallMs)
  try {
    await once(call, 'drain', { signal: AbortSignal.any([signal, stalled]) })
  } catch (cause) {
    if (!stalled.aborted) throw cause
    throw new BerthError(
      'timeout',
      'agent_timeout',
      `the export was ended: its client accepted no data for ${stallMs / 1000} seconds`,
      { cause },
    )
  }
}
