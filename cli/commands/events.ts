import type { BerthEvent } from '../../client/index.js'
import { usageError } from '../errors.js'
import { splitWords } from '../input/values.js'
import { formatJson } from '../output/print.js'
import { printable } from '../output/width.js'
import { openSession, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export interface EventsRun {
  readonly follow?: boolean
  readonly kinds?: string
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** Prints events. The gateway checks the kinds, because a newer one can know further kinds. With `follow`, it connects again when the stream ends and continues after the last event. */
export async function runEvents({ follow = false, kinds, options, surroundings }: EventsRun): Promise<void> {
  const form = options.output ?? 'table'
  if (form !== 'table' && form !== 'json') throw usageError(`-o: ${form} must be table or json for events`)
  if (options.jq !== undefined)
    throw usageError('--jq: not possible for events', 'use: berth events -f -o json | jq FILTER')
  const wanted = kinds === undefined ? {} : { kinds: splitWords('--kinds', kinds) }
  surroundings.endWithReader()
  const { client } = await openSession(surroundings, options)
  for await (const event of client.events({ ...wanted, reconnect: follow }))
    if (event.kind !== 'ready') surroundings.writeOut(formatEvent(event, form === 'json'))
}

function formatEvent({ kind, type, data }: BerthEvent, isJson: boolean): string {
  if (isJson) return `${formatJson({ kind, ...(type && { type, data }) }, 0)}\n`
  const shown = ['name', 'container_name', 'action', 'status', 'stage', 'progress', 'error', 'message', 'host_id']
  const parts = shown
    .filter((name) => data[name] !== undefined && data[name] !== '')
    .map((name) => `${name}=${String(data[name])}`)
  return `${printable([type || kind, ...parts].join('  '))}\n`
}
