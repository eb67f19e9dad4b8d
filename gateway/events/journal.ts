import { closeSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Logger } from 'pino'
import { describeError } from '../../shared/errors.js'
import type { HostPosition } from '../fleet/host-position.js'
import { parseJournal, type FormerEvents, type JournalLine } from './parse-journal.js'
import type { EventRing, RingEntry } from './ring.js'

export interface EventJournalOptions {
  readonly path: string
  readonly log: Logger
  /** Size in bytes above which the file is rewritten without old events. Default: 32 MiB. */
  readonly maxBytes?: number
}

/** Number of events in one write of a new file. The start of the gateway waits for these writes. */
const linesPerWrite = 500

/**
 * A file with the events of the ring. After a restart or crash of the gateway, the next process continues with these
 * events. Each event is written before it is sent, but not synced to the disk. After a crash of the host, the file is
 * therefore ignored.
 */
export class EventJournal {
  #former: FormerEvents | undefined
  readonly #boot: string
  #file: number | undefined
  #bytes = 0
  readonly #hosts = new Map<string, HostPosition>()

  constructor(private readonly options: EventJournalOptions) {
    this.#boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    this.#former = parseJournal(readIfThere(options.path), this.#boot)
  }

  /** Events and hosts of the previous gateway process. `undefined`: they are not known. */
  get former(): FormerEvents | undefined {
    return this.#former
  }

  /** Drops `former`, which uses much memory. */
  forgetFormer(): void {
    this.#former = undefined
  }

  /** Writes a new file with the ring's events, and atomically replaces the old file. */
  begin(ring: EventRing, hosts: Iterable<HostPosition>): void {
    this.#guard(() => {
      const { path } = this.options
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
      this.#close()
      this.#file = openSync(`${path}.new`, 'w', 0o600)
      this.#bytes = 0
      this.#hosts.clear()
      const base = Object.fromEntries(ring.base)
      this.#write({ boot: this.#boot, epoch: ring.epoch, first: ring.first, base })
      const lines = [...ring.all()].map(lineOf)
      for (let at = 0; at < lines.length; at += linesPerWrite) this.#write(...lines.slice(at, at + linesPerWrite))
      for (const host of hosts) this.#writeHost(host)
      renameSync(`${path}.new`, path)
    })
  }

  add(entry: RingEntry): void {
    this.#guard(() => this.#write(lineOf(entry)))
  }

  /** Writes the hosts that have changed or were removed since the last call. */
  update(ring: EventRing, hosts: Iterable<HostPosition>): void {
    this.#guard(() => {
      const gone = new Set(this.#hosts.keys())
      for (const host of hosts) {
        gone.delete(host.id)
        this.#writeHost(host)
      }
      for (const id of gone) {
        this.#hosts.delete(id)
        this.#write({ removed: id })
      }
    })
    if (this.#bytes > (this.options.maxBytes ?? 32 * 1024 ** 2)) this.begin(ring, [...this.#hosts.values()])
  }

  #writeHost(host: HostPosition): void {
    const known = this.#hosts.get(host.id)
    if (known && isSame(known, host)) return
    this.#hosts.set(host.id, host)
    this.#write({ host })
  }

  #write(...lines: readonly (JournalLine | object)[]): void {
    if (this.#file === undefined) return
    const bytes = Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
    for (let at = 0; at < bytes.length;) at += writeSync(this.#file, bytes, at)
    this.#bytes += bytes.length
  }

  /** If a write fails, deletes the journal. After a restart, clients then start over, so that they miss no events. */
  #guard(work: () => void): void {
    try {
      work()
    } catch (error) {
      this.options.log.warn(
        { reason: describeError(error) },
        'the events could not be written to disk; a restart of the gateway will lose them',
      )
      this.#close()
      for (const path of [this.options.path, `${this.options.path}.new`]) removeIfThere(path)
    }
  }

  #close(): void {
    if (this.#file !== undefined) closeSync(this.#file)
    this.#file = undefined
  }
}

function lineOf({ event, mark }: RingEntry): JournalLine {
  if (!event) return { mark: mark! }
  const { frame: _, customerFrame: __, ...content } = event
  return { event: content, ...(mark && { mark }) }
}

function isSame(a: HostPosition, b: HostPosition): boolean {
  return a.revision === b.revision && a.epoch === b.epoch && a.online === b.online && a.name === b.name
}

function removeIfThere(path: string): void {
  try {
    rmSync(path, { force: true })
  } catch {
    // The file cannot be deleted: its directory is read-only or not reachable.
  }
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
