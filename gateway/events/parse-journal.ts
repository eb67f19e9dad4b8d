import { journalLane } from '../fleet/change-mark.js'
import type { HostPosition } from '../fleet/host-position.js'
import type { EventContent } from './event.js'
import { markAfter, type EntryMark } from './positions.js'
import type { RingStart } from './ring.js'

/** First line of the file of an `EventJournal`. */
export interface JournalHeader {
  /** Boot id of the kernel. A file from before a reboot is ignored, because its last writes can be lost. */
  readonly boot: string
  /** Epoch of the `EventRing`, and number of the first event in the file. */
  readonly epoch: string
  readonly first: number
  /** Position before the first event, by lane (see `ChangeMark`). Absent: an older version has written the file. */
  readonly base?: Readonly<Record<string, number>>
}

/** An entry of the `EventRing`: an event with its mark (see `EntryMark`), or only a mark. */
export interface FormerEntry {
  readonly event?: EventContent
  readonly mark?: EntryMark
}

/**
 * A line after the header: an entry of the ring, the new state and revision of a host, or the id of a removed host.
 */
export type JournalLine = FormerEntry | { readonly host: HostPosition } | { readonly removed: string }

export interface FormerEvents extends RingStart {
  readonly entries: readonly FormerEntry[]
  /** The last state and revision of each host that the previous gateway process sent to clients, by host id. */
  readonly hosts: ReadonlyMap<string, HostPosition>
}

/** @returns undefined if the text is incomplete, or was written before the last boot of the host */
export function parseJournal(text: string, boot: string): FormerEvents | undefined {
  if (!text.endsWith('\n')) return undefined
  try {
    const [header, ...lines] = text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as unknown)
    const { epoch, first, base, ...written } = header as JournalHeader
    if (written.boot !== boot) return undefined
    const { entries, hosts } = contentOf(lines as JournalLine[])
    const gaps = base ? [] : gapsOf(hosts.values())
    return { epoch, first, base: new Map(Object.entries(base ?? {})), entries: [...entries, ...gaps], hosts }
  } catch {
    return undefined
  }
}

/** Marks a gap for each host. An earlier version stored no marks, so other gateways cannot identify its events. */
function gapsOf(hosts: Iterable<HostPosition>): FormerEntry[] {
  return [...hosts]
    .filter(({ epoch }) => epoch !== '')
    .map(({ id, epoch, revision }) => ({ mark: markAfter({ lane: journalLane(id, epoch), revision, isGap: true }) }))
}

function contentOf(lines: readonly JournalLine[]): Pick<FormerEvents, 'entries' | 'hosts'> {
  const entries: FormerEntry[] = []
  const hosts = new Map<string, HostPosition>()
  for (const line of lines)
    if ('host' in line) hosts.set(line.host.id, line.host)
    else if ('removed' in line) hosts.delete(line.removed)
    else entries.push(convert(line))
  return { entries, hosts }
}

/** Converts an entry of an earlier version, in which tasks had no `actor`, and `customerData` had no type. */
function convert(entry: FormerEntry): FormerEntry {
  const { event } = entry
  if (!event) return entry
  if (event.type.startsWith('task.') && event.actor === undefined) return { ...entry, event: withActor(event) }
  if (!('customerData' in event)) return entry
  const { customerData, ...rest } = event
  return { ...entry, event: { ...rest, customer: { type: event.type, data: String(customerData) } } }
}

function withActor(event: EventContent): EventContent {
  const { user } = JSON.parse(event.data) as { user?: string }
  return user === undefined ? event : { ...event, actor: user }
}
