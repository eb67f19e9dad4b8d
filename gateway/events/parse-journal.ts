import type { HostPosition } from '../fleet/host-position.js'
import type { EventContent } from './event.js'

/** First line of the file of an `EventJournal`. */
export interface JournalHeader {
  /** Boot id of the kernel. A file from before a reboot is ignored, because its last writes may be lost. */
  readonly boot: string
  /** Epoch of the `EventRing`, and number of the first event in the file. */
  readonly epoch: string
  readonly first: number
}

/** A line after the header: an event, the new state and revision of a host, or the id of a removed host. */
export type JournalLine =
  { readonly event: EventContent } | { readonly host: HostPosition } | { readonly removed: string }

export interface FormerEvents {
  readonly epoch: string
  readonly first: number
  readonly events: readonly EventContent[]
  /** By host id: the last state and revision of the host that the previous gateway process sent to clients. */
  readonly hosts: ReadonlyMap<string, HostPosition>
}

/** @returns undefined if the text is incomplete, or was written before the last boot of the machine */
export function parseJournal(text: string, boot: string): FormerEvents | undefined {
  if (!text.endsWith('\n')) return undefined
  try {
    const [header, ...lines] = text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as unknown)
    const { epoch, first, ...written } = header as JournalHeader
    return written.boot === boot ? { epoch, first, ...contentOf(lines as JournalLine[]) } : undefined
  } catch {
    return undefined
  }
}

function contentOf(lines: readonly JournalLine[]): Pick<FormerEvents, 'events' | 'hosts'> {
  const events: EventContent[] = []
  const hosts = new Map<string, HostPosition>()
  for (const line of lines)
    if ('event' in line) events.push(line.event)
    else if ('host' in line) hosts.set(line.host.id, line.host)
    else hosts.delete(line.removed)
  return { events, hosts }
}
