import type { TSchema } from 'typebox'
import { ownKeywords } from './normalize.js'

export type Json = Record<string, unknown>

/** Schemas with a title. The document defines each of them once and refers to it. */
export class SharedSchemas {
  readonly #schemas = new Map<string, Json>()

  /** All schemas, sorted by name. */
  get all(): Record<string, Json> {
    return Object.fromEntries([...this.#schemas].sort(([a], [b]) => (a < b ? -1 : 1)))
  }

  /**
   * Converts a schema for the document and removes keywords of TypeBox and of Berth.
   * @throws {Error} if two schemas have the same title
   */
  refer(schema: TSchema): Json {
    return this.#place(JSON.parse(JSON.stringify(schema))) as Json
  }

  #place(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((entry) => this.#place(entry))
    if (typeof value !== 'object' || value === null) return value
    const placed: Json = {}
    for (const [name, part] of Object.entries(value)) if (!isOwn(name, part)) placed[name] = this.#place(part)
    return typeof placed['title'] === 'string' ? this.#share(placed['title'], placed) : placed
  }

  #share(title: string, schema: Json): Json {
    const known = this.#schemas.get(title)
    if (known && JSON.stringify(known) !== JSON.stringify(schema))
      throw new Error(`two schemas have the title ${title}`)
    this.#schemas.set(title, schema)
    return { $ref: `#/components/schemas/${title}` }
  }
}

/** True for a keyword of Berth, such as `trim: true`. False for a property named `trim`, whose value is a schema. */
function isOwn(name: string, value: unknown): boolean {
  return value === true && (ownKeywords as readonly string[]).includes(name)
}
