import type { Statement } from 'better-sqlite3'
import { Throttle } from '../../shared/async/throttle.js'
import type { Changes } from '../state/changes.js'
import { catalog, findCatalogEntry, type CatalogEntry } from './catalog.js'
import type { DownloadProgress } from './sources/transfer.js'

/** A template, and the state of its image on this host. */
export interface TemplateRecord extends Omit<CatalogEntry, 'source'>, DownloadProgress {
  readonly source: CatalogEntry['source']['kind']
  readonly custom: boolean
  /** URL of a custom image. Empty for other images. */
  readonly url: string
  readonly sha256: string
  /** True if the image is on this host. If false, the first use of the template creates the image. */
  readonly available: boolean
  /** Size of the image in bytes. 0: the image is not available. */
  readonly sizeBytes: number
  /** True if guests must not be created from the template. */
  readonly disabled: boolean
  /** True if the image is being created, or an operation to create it is queued. */
  readonly downloading: boolean
  /** Progress of the image's creation in per cent. */
  readonly progress: number
  /** Reason why this host cannot use the template. Empty: the host can use it. */
  readonly unsupported: string
  /** Error code of the last attempt to create the image. Empty: it succeeded, or there was no attempt. */
  readonly failure: string
  readonly revision: number
}

export interface ImageState {
  /** Size of the image in bytes. 0: the image does not exist. */
  readonly sizeBytes: number
  readonly builtAtMs: number
  readonly enabled: boolean
  /** True if an operation to create the image is queued or running. */
  readonly ordered: boolean
  /** True while the image is being created, by an operation or because a guest needs it. */
  readonly making: boolean
  readonly failure: string
}

interface Progress extends DownloadProgress {
  readonly progress: number
}

interface Row {
  template_id: string
  size_bytes: number
  built_at_ms: number
  revision: number
  enabled: number
  ordered: number
  making: number
  failure: string
  /** `CatalogEntry` of a custom image as JSON. Null: the template belongs to the catalogue. */
  definition: string | null
}

const untouched: ImageState = { sizeBytes: 0, builtAtMs: 0, enabled: true, ordered: false, making: false, failure: '' }
const noProgress: Progress = { progress: 0, receivedBytes: 0, totalBytes: 0, bytesPerSec: 0 }

/** Minimum interval in ms between writes of progress. Each write is a synced commit and an event to all watchers. */
const progressEveryMs = 500

/**
 * Stores the table `images`, with a row for every template of the catalogue and every custom template. `built_at_ms` is
 * 0 if the template has no image. If an image is deleted, watchers get its row as changed.
 */
export class ImageStore {
  readonly #changes: Changes
  readonly #unsupported: (entry: CatalogEntry) => string
  readonly #byId: Statement<[string], Row>
  readonly #custom: Statement<[], Row>
  readonly #write: Statement<[Record<string, unknown>]>
  readonly #progress = new Map<string, Progress>()
  /** Last reported progress of each image. The journal and watchers get the progress only at intervals (`#writes`). */
  readonly #newest = new Map<string, Progress>()
  readonly #writes = new Map<string, Throttle>()

  /** @param unsupported returns the reason why this host cannot use a template, or '' if the host can use it */
  constructor(changes: Changes, unsupported: (entry: CatalogEntry) => string = () => '') {
    this.#changes = changes
    this.#unsupported = unsupported
    const { db } = changes
    this.#byId = db.prepare('SELECT * FROM images WHERE template_id = ?')
    this.#custom = db.prepare('SELECT * FROM images WHERE definition IS NOT NULL ORDER BY template_id')
    this.#write = db.prepare(
      `INSERT OR REPLACE INTO images
         (template_id, size_bytes, built_at_ms, revision, enabled, ordered, making, failure, definition)
       VALUES (@id, @sizeBytes, @builtAtMs, @revision, @enabled, @ordered, @making, @failure, @definition)`,
    )
  }

  /** Lists all templates. Templates of the catalogue come first. */
  templates(): TemplateRecord[] {
    return this.#ids().flatMap((id) => this.find(id) ?? [])
  }

  find(id: string): TemplateRecord | undefined {
    const row = this.#byId.get(id)
    const entry = this.#entryOf(id, row)
    return entry && this.#recordOf(entry, row)
  }

  findEntry(id: string): CatalogEntry | undefined {
    return this.#entryOf(id, this.#byId.get(id))
  }

  isAvailable(id: string): boolean {
    return (this.#byId.get(id)?.built_at_ms ?? 0) > 0
  }

  state(id: string): ImageState {
    const row = this.#byId.get(id)
    return row ? stateOf(row) : untouched
  }

  /** Changes the state of an image. Writes nothing if no value differs. Can join the caller's transaction. */
  update(id: string, change: Partial<ImageState>): void {
    const row = this.#byId.get(id)
    const state = { ...(row ? stateOf(row) : untouched), ...change }
    if (!state.making) this.#endProgress(id)
    if (row && JSON.stringify(state) === JSON.stringify(stateOf(row))) return
    this.#put(id, state, row?.definition ?? null)
  }

  /** Keeps the progress of an image's creation in memory, and notifies watchers of it at intervals. */
  report(id: string, progress: Progress): void {
    this.#newest.set(id, progress)
    const writes =
      this.#writes.get(id) ?? new Throttle(() => this.#show(id), { intervalMs: progressEveryMs, leading: true })
    this.#writes.set(id, writes)
    writes.request()
  }

  /** Notifies watchers of the progress by a write of the image's row. Ignores failures. */
  #show(id: string): void {
    this.#progress.set(id, this.#newest.get(id) ?? noProgress)
    try {
      this.#put(id, this.state(id), this.#byId.get(id)?.definition ?? null)
    } catch {
      // The journal rejects writes while the disk is full or the agent shuts down.
    }
  }

  #endProgress(id: string): void {
    this.#progress.delete(id)
    this.#writes.get(id)?.close()
    this.#writes.delete(id)
    this.#newest.delete(id)
  }

  /** Adds a custom template. Can join the caller's transaction. */
  addCustom(entry: CatalogEntry): void {
    this.#put(entry.id, this.state(entry.id), JSON.stringify(entry))
  }

  forget(id: string): void {
    this.#endProgress(id)
    this.#changes.transaction(() => {
      this.#changes.record('template', id, true)
      this.#changes.db.prepare('DELETE FROM images WHERE template_id = ?').run(id)
    })
  }

  /** Adds and removes rows so that they match the catalogue of this version. */
  matchCatalog(): void {
    const known = new Set(this.#ids())
    const rows = this.#changes.db.prepare<[], Row>('SELECT * FROM images').all()
    this.#changes.transaction(() => {
      for (const { template_id: id } of rows.filter((row) => !known.has(row.template_id))) this.forget(id)
      for (const id of known) if (!this.#byId.get(id)) this.update(id, {})
    })
  }

  #ids(): string[] {
    return [...catalog.map(({ id }) => id), ...this.#custom.all().map(({ template_id: id }) => id)]
  }

  #put(id: string, state: ImageState, definition: string | null): void {
    const { enabled, ordered, making, ...rest } = state
    const flags = { enabled: Number(enabled), ordered: Number(ordered), making: Number(making) }
    this.#changes.transaction(() => {
      const revision = this.#changes.record('template', id)
      this.#write.run({ id, ...rest, ...flags, definition, revision })
    })
  }

  #entryOf(id: string, row: Row | undefined): CatalogEntry | undefined {
    if (row?.definition) return JSON.parse(row.definition) as CatalogEntry
    return findCatalogEntry(id)
  }

  #recordOf({ source, ...entry }: CatalogEntry, row: Row | undefined): TemplateRecord {
    const { sizeBytes, builtAtMs, enabled, ordered, making, failure } = row ? stateOf(row) : untouched
    const downloading = ordered || making
    const { url, sha256 } = source.kind === 'url' ? source : { url: '', sha256: '' }
    return {
      ...entry,
      source: source.kind,
      custom: Boolean(row?.definition),
      url,
      sha256,
      available: builtAtMs > 0,
      sizeBytes,
      disabled: !enabled,
      downloading,
      failure,
      ...(this.#progress.get(entry.id) ?? noProgress),
      unsupported: this.#unsupported({ ...entry, source }),
      revision: row?.revision ?? 0,
    }
  }
}

function stateOf(row: Row): ImageState {
  return {
    sizeBytes: row.size_bytes,
    builtAtMs: row.built_at_ms,
    enabled: row.enabled === 1,
    ordered: row.ordered === 1,
    making: row.making === 1,
    failure: row.failure,
  }
}
