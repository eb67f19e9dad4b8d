import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import { conflict, notFound } from '../../shared/errors.js'
import { open, seal } from '../../shared/sealing.js'
import type { Store, StoreClient } from '../store/store.js'
import {
  fieldsOf,
  partSecrets,
  planTarget,
  planTargetChange,
  type TargetFields,
  type TargetSecrets,
  type TargetType,
} from './plan-target.js'

export interface TargetRecord {
  readonly id: string
  readonly shown: Omit<TargetFields, keyof TargetSecrets> & {
    readonly name: string
    readonly type: TargetType
  }
  /** `TargetSecrets`, encrypted. They can be decrypted only for this target. */
  readonly sealed: string
  readonly createdAtMs: number
  readonly changedAtMs: number
}

/** A container with backups at a target, and its name at the time of the last backup. */
export interface KnownContainer {
  readonly uuid: string
  readonly name: string
  readonly id: number
}

/** Maximum number of targets, which limits the memory for reading them. */
const maxTargets = 100

/**
 * Backup targets, which all hosts can use. All methods can throw BerthError `store_unavailable`.
 *
 * | key | holds |
 * |---|---|
 * | `backup-targets` | hash: id → TargetRecord as JSON |
 * | `backup-containers:ID` | hash: uuid → KnownContainer as JSON, for each container with a requested backup |
 */
export class BackupTargets {
  readonly #store: Store
  readonly #secret: Buffer

  /** @param secret 32 secret bytes, the same in all gateways on one store */
  constructor(store: Store, secret: Buffer) {
    this.#store = store
    this.#secret = secret
  }

  /** Lists the targets in the order of their names. */
  async list(): Promise<TargetRecord[]> {
    const texts = await this.#store.run('read backup targets', (client) => client.hVals(this.#key))
    return texts.map(parse).sort((a, b) => (a.shown.name < b.shown.name ? -1 : 1))
  }

  /** @throws {BerthError} `not_found` */
  async get(id: string): Promise<TargetRecord> {
    const text = await this.#store.run('read a backup target', (client) => client.hGet(this.#key, id))
    if (text === null) throw notFound('backup target')
    return parse(text)
  }

  /** Returns a backup target with its secrets, for an agent. @throws {BerthError} `not_found` */
  async open(id: string): Promise<BackupTarget> {
    return this.#open(await this.get(id))
  }

  /**
   * Creates a target.
   * @param id id of the operation; a repeated call with this id returns the same target
   * @throws {BerthError} `invalid_field`, `missing_field`, `name_conflict`, `resource_exhausted`
   */
  async create(id: string, fields: TargetFields): Promise<TargetRecord> {
    const target = planTarget(id, fields)
    return this.#write('create a backup target', (known) => {
      const made = known.find((record) => record.id === id)
      if (!made && known.length >= maxTargets)
        throw conflict('resource_exhausted', `at most ${maxTargets} backup targets are allowed: remove one first`)
      return made ?? this.#record(target, Date.now())
    })
  }

  /** Changes the given fields of a target. @throws {BerthError} `not_found`, `invalid_field`, `name_conflict` */
  async update(id: string, change: TargetFields): Promise<TargetRecord> {
    return this.#write('change a backup target', (known) => {
      const before = known.find((record) => record.id === id)
      if (!before) throw notFound('backup target')
      return this.#record(planTargetChange(this.#open(before), change), before.createdAtMs)
    })
  }

  /** Removes a target. The backups at the target are not deleted. */
  async remove(id: string): Promise<void> {
    await this.#store.run('remove a backup target', (client) =>
      client.multi().hDel(this.#key, id).del(this.#containersKey(id)).exec(),
    )
  }

  /**
   * Records a container with backups, so that its backups are found after its deletion. Call this before the first one.
   */
  async note(id: string, container: KnownContainer): Promise<void> {
    await this.#store.run('record that a container has backups on a target', (client) =>
      client.hSet(this.#containersKey(id), container.uuid, JSON.stringify(container)),
    )
  }

  /** Lists the containers for which a backup was requested, in the order of their names. */
  async listContainers(id: string): Promise<KnownContainer[]> {
    const texts = await this.#store.run('read the containers that have backups on a target', (client) =>
      client.hVals(this.#containersKey(id)),
    )
    const known = texts.map((text) => JSON.parse(text) as KnownContainer)
    return known.sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  #record(target: BackupTarget, createdAtMs: number): TargetRecord {
    const { id } = target
    const { shown, secrets } = partSecrets(fieldsOf(target))
    const named = { ...shown, name: target.name, type: fieldsOf(target).type }
    const sealed = seal(this.#secret, JSON.stringify(secrets), aboutOf(id))
    return { id, shown: named, sealed, createdAtMs, changedAtMs: Date.now() }
  }

  #open({ id, shown, sealed }: TargetRecord): BackupTarget {
    const secrets = JSON.parse(open(this.#secret, sealed, aboutOf(id))) as TargetSecrets
    return planTarget(id, { ...shown, ...secrets })
  }

  async #write(step: string, plan: (known: readonly TargetRecord[]) => TargetRecord): Promise<TargetRecord> {
    return this.#store.transact(step, async (client: StoreClient) => {
      await client.watch(this.#key)
      const known = (await client.hVals(this.#key)).map(parse)
      const record = plan(known)
      refuseTaken(record, known)
      await client.multi().hSet(this.#key, record.id, JSON.stringify(record)).exec()
      return record
    })
  }

  get #key(): string {
    return this.#store.key('backup-targets')
  }

  #containersKey(id: string): string {
    return this.#store.key('backup-containers', id)
  }
}

function parse(text: string): TargetRecord {
  return JSON.parse(text) as TargetRecord
}

function aboutOf(id: string): string {
  return `backup-target:${id}`
}

/** @throws {BerthError} `name_conflict` */
function refuseTaken({ id, shown: { name } }: TargetRecord, known: readonly TargetRecord[]): void {
  const isTaken = known.some((other) => other.id !== id && other.shown.name.toLowerCase() === name.toLowerCase())
  if (isTaken) throw conflict('name_conflict', `a backup target named ${name} already exists`)
}
