import type { Logger } from 'pino'
import { BerthError } from '../../shared/errors.js'
import type { Changes } from '../state/changes.js'
import type { Report } from './build.js'
import { findCatalogEntry, type CatalogEntry } from './catalog.js'
import { Flight } from './flight.js'
import type { ImagePool } from './pool.js'
import { ImageStore, type TemplateRecord } from './store.js'

export interface ImagesParts {
  readonly pool: ImagePool
  readonly changes: Changes
  readonly log: Logger
}

/** Templates and their images on this host. */
export class Images {
  readonly store: ImageStore
  readonly #parts: ImagesParts
  readonly #flights = new Map<string, Flight>()

  constructor(parts: ImagesParts) {
    this.#parts = parts
    this.store = new ImageStore(parts.changes)
  }

  templates(): TemplateRecord[] {
    return this.store.templates()
  }

  find(id: string): TemplateRecord | undefined {
    return this.store.find(id)
  }

  /** In the catalogue. */
  knows(id: string): boolean {
    return findCatalogEntry(id) !== undefined
  }

  /** On this host. */
  has(id: string): boolean {
    return this.store.isAvailable(id)
  }

  /**
   * Makes the image if it is not there. Calls for one template share one build, which ends when all who wait
   * for it are aborted.
   * @throws {BerthError} `template_unknown`, and what a build throws
   */
  async ensure(id: string, report: Report, signal: AbortSignal): Promise<void> {
    const entry = findCatalogEntry(id)
    if (!entry) throw new BerthError('not_found', 'template_unknown', `no template ${id}`)
    for (;;) {
      if (await this.#isThere(id)) return report(1, 'image ready')
      const flight = this.#flights.get(id)
      if (!flight?.abandoned) return (flight ?? this.#begin(entry)).join(report, signal)
      await flight.settled()
    }
  }

  #begin(entry: CatalogEntry): Flight {
    const flight = new Flight(async (report, signal) => {
      try {
        await this.#make(entry, report, signal)
      } finally {
        this.#flights.delete(entry.id)
      }
    })
    this.#flights.set(entry.id, flight)
    return flight
  }

  async #make(entry: CatalogEntry, report: Report, signal: AbortSignal): Promise<void> {
    if (this.has(entry.id)) return // by the flight before, which ended after the caller had looked
    const begin = Date.now()
    await this.#parts.pool.build(entry, report, signal)
    await this.#record(entry.id)
    this.#parts.log.info({ template: entry.id, tookMs: Date.now() - begin }, 'image built')
  }

  /** At start, before anything builds: throws away unfinished builds, and believes the pool, not the journal. */
  async sweep(): Promise<void> {
    await this.#parts.pool.sweep()
    this.store.matchCatalog()
    for (const { id } of this.store.templates()) await this.#reconcile(id)
  }

  async #reconcile(id: string): Promise<void> {
    const there = await this.#parts.pool.has(id)
    if (there && !this.has(id)) await this.#record(id)
    if (!there) this.store.set(id, undefined)
  }

  async #isThere(id: string): Promise<boolean> {
    await this.#reconcile(id)
    return this.has(id)
  }

  async #record(id: string): Promise<void> {
    this.store.set(id, { sizeBytes: await this.#parts.pool.readSize(id), builtAtMs: Date.now() })
  }
}
