import { Metadata } from '@grpc/grpc-js'
import { Readable } from 'node:stream'
import type { ExportGuestRequest, ExportGuestResponse } from '../../../proto/gen/berth/agent/v1/export.js'
import { BerthError } from '../../../shared/errors.js'
import { fromServiceError } from '../../../shared/grpc-errors.js'
import type { AgentConnection } from './agent-connection.js'
import type { AgentLink } from './agent-link.js'

export interface OpenExportParts {
  readonly connection: Pick<AgentConnection, 'exports' | 'holdArchives'>
  readonly link: Pick<AgentLink, 'whileOnline'>
  /** Time in ms for the agent to take the snapshot. */
  readonly timeoutMs: number
}

const step = 'export guest'

/**
 * Begins an export. Resolves when the agent has taken the snapshot. The archive is read only as fast as the stream is
 * read. If the stream is destroyed, the agent ends the export.
 * @throws {BerthError} the agent's error, `host_offline`, `agent_timeout`
 */
export async function openExport(
  { connection, link, timeoutMs }: OpenExportParts,
  request: ExportGuestRequest,
): Promise<Readable> {
  const call = connection.exports.exportGuest(request, new Metadata())
  connection.holdArchives(call) // the export continues if the gateway replaces its connection to the host
  const online = link.whileOnline(() => call.cancel())
  const end = (): void => {
    online()
    call.cancel()
  }
  const messages = call[Symbol.asyncIterator]() as AsyncIterator<ExportGuestResponse>
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    call.cancel()
  }, timeoutMs)
  try {
    await messages.next()
  } catch (error) {
    end()
    if (isLate) throw new BerthError('timeout', 'agent_timeout', 'the host does not answer', { cause: error })
    throw fromServiceError(error, { step, left: true })
  } finally {
    clearTimeout(timer)
  }
  const body = Readable.from(dataOf(messages, end), { objectMode: false })
  return body.once('close', end) // a stream that is destroyed before its first read does not run the generator
}

async function* dataOf(messages: AsyncIterator<ExportGuestResponse>, end: () => void): AsyncGenerator<Buffer> {
  try {
    for (let message = await messages.next(); !message.done; message = await messages.next())
      if (message.value.data.length > 0) yield message.value.data
  } catch (error) {
    throw fromServiceError(error, { step, left: true })
  } finally {
    end()
  }
}
