import type { Changes } from '../state/changes.js'
import { catalog, type CatalogEntry } from './catalog.js'

/** A template as shown: the catalogue's entry and what is on this host. */
export interface TemplateRecord extends Omit<CatalogEntry, 'suite'> {
  /** The image is on this host; else its first use builds it. */
  readonly available: boolean
  /** 0 when not available. */
  readonly sizeBytes: number
  readonly revision: number
}

interface Row {
  template_id: string
  size_bytes: number
  built_at_ms: number
  revision: number
}

/**
 * The `images` table: a row for every template of the catalogue, `built_at_ms` 0 where there is no image, so
 * that watchers hear of one that went, too.
 */
export class ImageStore {
  readonly #changes: Changes

  constructor(changes: Changes) {
    this.#changes = changes
  }

  templates(): TemplateRecord[] {
    return catalog.flatMap((entry) => this.find(entry.id) ?? [])
  }

  find(id: string): TemplateRecord | undefined {
    const entry = catalog.find((candidate) => candidate.id === id)
    return entry && recordOf(entry, this.#row(id))
  }

  isAvailable(id: string): boolean {
    return (this.#row(id)?.built_at_ms ?? 0) > 0
  }

  /** Changes nothing when the row says so already. */
  set(id: string, image: { sizeBytes: number; builtAtMs: number } | undefined): void {
    const wanted = { size: image?.sizeBytes ?? 0, builtAt: image?.builtAtMs ?? 0 }
    const row = this.#row(id)
    if (row && row.size_bytes === wanted.size && row.built_at_ms === wanted.builtAt) return
    this.#changes.transaction(() => {
      const revision = this.#changes.record('template', id)
      this.#changes.db
        .prepare(
          'INSERT OR REPLACE INTO images (template_id, size_bytes, built_at_ms, revision) VALUES (?, ?, ?, ?)',
        )
        .run(id, wanted.size, wanted.builtAt, revision)
    })
  }

  /** Makes the rows match the catalogue of this version of the program. */
  matchCatalog(): void {
    const known = new Set(catalog.map((entry) => entry.id))
    const rows = this.#changes.db.prepare<[], Row>('SELECT * FROM images').all()
    for (const { template_id: id } of rows.filter((row) => !known.has(row.template_id))) this.#forget(id)
    for (const id of known) if (!this.#row(id)) this.set(id, undefined)
  }

  #forget(id: string): void {
    this.#changes.transaction(() => {
      this.#changes.record('template', id, true)
      this.#changes.db.prepare('DELETE FROM images WHERE template_id = ?').run(id)
    })
  }

  #row(id: string): Row | undefined {
    return this.#changes.db.prepare<[string], Row>('SELECT * FROM images WHERE template_id = ?').get(id)
  }
}

function recordOf({ suite: _, ...entry }: CatalogEntry, row: Row | undefined): TemplateRecord {
  return {
    ...entry,
    available: (row?.built_at_ms ?? 0) > 0,
    sizeBytes: row?.size_bytes ?? 0,
    revision: row?.revision ?? 0,
  }
}
