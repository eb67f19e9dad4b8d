import { setTimeout as delay } from 'node:timers/promises'
import { CliError, exitCodes, usageError } from '../errors.js'
import type { StreamEvent } from '../events/event-parser.js'
import { parseData, readStream } from '../events/read-stream.js'
import { formatJson } from '../output/print.js'
import { isRecord } from '../output/table.js'
import { printable } from '../output/width.js'
import { openSession, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export interface EventsRun {
  readonly follow?: boolean
  readonly kinds?: string
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

const reconnectMs = 1000

/** Prints events. With `follow`, it connects again when the stream ends and continues after the last event. */
export async function runEvents({ follow = false, kinds, options, surroundings }: EventsRun): Promise<void> {
  const form = options.output ?? 'table'
  if (form !== 'table' && form !== 'json') throw usageError(`-o: ${form} must be table or json for events`)
  const { client } = await openSession(surroundings, options)
  const print = (event: StreamEvent): void => surroundings.writeOut(formatEvent(event, form === 'json'))
  let lastId: string | undefined
  for (let isFirst = true; ; isFirst = false) {
    try {
      lastId = await readStream(client, { lastId, kinds }, print)
      if (!follow) return
    } catch (cause) {
      const isTemporary = cause instanceof CliError && cause.exitCode === exitCodes.unreachable
      if (!follow || isFirst || !isTemporary) throw cause
    }
    await delay(reconnectMs)
  }
}

function formatEvent({ kind, data }: StreamEvent, isJson: boolean): string {
  const content = parseData(data)
  if (isJson) return `${formatJson({ kind, ...content }, 0)}\n`
  const { type, data: fields } = content as { type?: string; data?: unknown }
  const row = isRecord(fields) ? fields : {}
  const shown = ['name', 'container_name', 'action', 'status', 'stage', 'progress', 'error', 'message', 'host_id']
  const parts = shown
    .filter((name) => row[name] !== undefined && row[name] !== '')
    .map((name) => `${name}=${String(row[name])}`)
  return `${printable([type ?? kind, ...parts].join('  '))}\n`
}
