import type { HostPosition } from '../fleet/host-position.js'
import type { EventContent } from './event.js'

/** First line of a journal. */
export interface JournalHeader {
  /** Identity of the kernel's run: a write that was not synced survives a crash of the process, but not of the machine. */
  readonly boot: string
  /** Epoch of the ring, and number of the journal's first event. */
  readonly epoch: string
  readonly first: number
}

/** Each other line of a journal. */
export type JournalLine =
  { readonly event: EventContent } | { readonly host: HostPosition } | { readonly removed: string }

export interface FormerEvents {
  readonly epoch: string
  readonly first: number
  readonly events: readonly EventContent[]
  /** By id. */
  readonly hosts: ReadonlyMap<string, HostPosition>
}

/** @returns undefined if the text is not a complete journal of this run of the kernel */
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
