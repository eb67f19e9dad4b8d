import type { Client } from '../client/client.js'
import { isRecord } from '../output/table.js'
import { EventParser, type StreamEvent } from './event-parser.js'

export interface Position {
  readonly lastId: string | undefined
  readonly kinds: string | undefined
}

/** Reads a stream until it ends. @returns the id of its last event */
export async function readStream(
  client: Client,
  { lastId, kinds }: Position,
  print: (event: StreamEvent) => void,
): Promise<string | undefined> {
  const query = { ...(lastId && { last_event_id: lastId }), ...(kinds && { kinds }) }
  const response = await client.open({ method: 'GET', path: '/events', query })
  response.setEncoding('utf8')
  const parser = new EventParser()
  let last = lastId
  try {
    for await (const text of response)
      for (const event of parser.push(text as string)) {
        last = event.id || last
        if (!/^(ready|beat|end)$/.test(event.kind)) print(event)
      }
  } catch (cause) {
    if (!response.errored) throw cause // a lost connection ends the stream, too
  }
  return last
}

/** Returns the content of an event; an empty object if it is not an object. */
export function parseData(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value : {}
  } catch {
    return {}
  }
}
