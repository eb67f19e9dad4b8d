import type { Statement } from 'better-sqlite3'
import type { GuestSpec } from '../../proto/gen/berth/agent/v1/guest.js'
import type { IdMap } from '../host/disk/copy-tree.js'
import type { Changes } from '../state/changes.js'

/** The files to import. */
export interface ImportSource {
  /** Absolute path of the directory or archive, without symbolic links. */
  readonly path: string
  /** True for an archive. Default: false. */
  readonly isArchive?: boolean
  readonly ids?: IdMap
  /** Bytes that the files used when the import was requested. */
  readonly usedBytes?: number
}

/**
 * `waiting`: a gateway has to order the creation; `ordered`: the guest is being created; `ended`: its creation
 * has ended; `refused`: the guest cannot be created, see `message`.
 */
export type ImportState = 'waiting' | 'ordered' | 'ended' | 'refused'

export interface ImportRecord {
  readonly id: string
  readonly name: string
  readonly source: ImportSource
  readonly spec: GuestSpec
  readonly state: ImportState
  readonly message: string
  readonly revision: number
}

interface Row {
  readonly id: string
  readonly name: string
  readonly source: string
  readonly spec: string
  readonly state: ImportState
  readonly message: string
  readonly revision: number
}

/** Number of the newest imports that stay in the table. Older imports stay only while they wait or run. */
const kept = 200

/**
 * Stores the table `imports`. The removal of old rows is not reported as a change, because older agents do not know
 * this kind of change. An older agent uses the same journal if the agent is rolled back.
 */
export class ImportStore {
  readonly #byId: Statement<[string], Row>
  readonly #all: Statement<[], Row>
  readonly #put: Statement<[Row]>

  constructor(private readonly changes: Changes) {
    const { db } = changes
    this.#byId = db.prepare('SELECT * FROM imports WHERE id = ?')
    this.#all = db.prepare('SELECT * FROM imports ORDER BY revision')
    this.#put = db.prepare(
      `INSERT OR REPLACE INTO imports (id, name, source, spec, state, message, revision)
       VALUES (@id, @name, @source, @spec, @state, @message, @revision)`,
    )
  }

  find(id: string): ImportRecord | undefined {
    const row = this.#byId.get(id)
    return row && recordOf(row)
  }

  list(): ImportRecord[] {
    return this.#all.all().map(recordOf)
  }

  /** Lists the imports that wait or run. */
  listOpen(): ImportRecord[] {
    return this.list().filter(({ state }) => state === 'waiting' || state === 'ordered')
  }

  /** Adds an import, and removes old ones. */
  add(request: Pick<ImportRecord, 'id' | 'name' | 'source' | 'spec'>): void {
    this.changes.transaction(() => {
      this.changes.db
        .prepare(
          `DELETE FROM imports WHERE state IN ('ended', 'refused')
             AND id NOT IN (SELECT id FROM imports ORDER BY revision DESC LIMIT ?)`,
        )
        .run(kept)
      this.#write({ ...request, state: 'waiting', message: '', revision: 0 })
    })
  }

  /** Records that the guest is being created, so that no gateway orders it again. Joins the caller's transaction. */
  order(id: string): void {
    this.#change(id, { state: 'ordered' })
  }

  /** Ends a waiting import. Ignores other imports. */
  refuse(id: string, message: string): void {
    if (this.find(id)?.state === 'waiting') this.#change(id, { state: 'refused', message })
  }

  /** Records that the creation of the guest has ended. Joins the caller's transaction. */
  end(id: string): void {
    this.#change(id, { state: 'ended' })
  }

  #change(id: string, change: Pick<ImportRecord, 'state'> & Partial<Pick<ImportRecord, 'message'>>): void {
    const found = this.find(id)
    if (found) this.changes.transaction(() => this.#write({ ...found, ...change }))
  }

  #write(record: ImportRecord): void {
    const { id, source, spec } = record
    const revision = this.changes.record('import', id)
    this.#put.run({ ...record, source: JSON.stringify(source), spec: JSON.stringify(spec), revision })
  }
}

function recordOf({ source, spec, ...row }: Row): ImportRecord {
  return { ...row, source: JSON.parse(source) as ImportSource, spec: JSON.parse(spec) as GuestSpec }
}
