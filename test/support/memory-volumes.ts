import type { HostVolumes } from '../../agent/daemon/host.js'
import { conflict } from '../../shared/errors.js'
import type { Faults } from './memory-driver.js'

/** Volumes that are the id of what was cloned, by their path below the pool: `UUID`, `UUID.next`, `UUID/SNAPSHOT`. */
export class MemoryVolumes {
  readonly #contents = new Map<string, string>()

  has(uuid: string): boolean {
    return this.#contents.has(uuid)
  }

  add(uuid: string, content = 'debian-12'): void {
    this.#contents.set(uuid, content)
  }

  /** Undefined: there is none. */
  contentOf(path: string): string | undefined {
    return this.#contents.get(path)
  }

  /** What there is of a guest, sorted. */
  pathsOf(uuid: string): string[] {
    return [...this.#contents.keys()].filter((path) => path.startsWith(uuid)).sort()
  }

  delete(path: string): boolean {
    return this.#contents.delete(path)
  }

  list(): string[] {
    return [...new Set([...this.#contents.keys()].map((path) => path.slice(0, 36)))]
  }

  #copy(from: string, to: string): void {
    const content = this.#contents.get(from)
    if (content === undefined) throw conflict('volume_missing', from)
    this.#contents.set(to, content)
  }

  exchange(uuid: string): 'exchanged' | 'nothing' {
    if (!this.#contents.has(`${uuid}.next`)) return 'nothing'
    this.#copy(`${uuid}.next`, uuid)
    this.delete(`${uuid}.next`)
    return 'exchanged'
  }

  /** As the daemon has them. */
  open(faults: Faults): HostVolumes {
    const meet = async (method: keyof HostVolumes, uuid: string): Promise<void> => faults[method]?.(uuid)
    return {
      pathOf: (uuid) => `/nowhere/${uuid}`,
      nextPathOf: (uuid) => `/nowhere/${uuid}.next`,
      clone: async (uuid, templateId) => {
        await meet('clone', uuid)
        if (!this.has(uuid)) this.add(uuid, templateId)
      },
      prepare: async (uuid, source) => {
        await meet('prepare', uuid)
        if ('snapshot' in source) this.#copy(`${uuid}/${source.snapshot}`, `${uuid}.next`)
        else this.#contents.set(`${uuid}.next`, source.templateId)
      },
      discardNext: async (uuid) => this.delete(`${uuid}.next`),
      exchange: async (uuid) => {
        await meet('exchange', uuid)
        return this.exchange(uuid)
      },
      snapshot: async (uuid, id) => {
        await meet('snapshot', uuid)
        const made = !this.#contents.has(`${uuid}/${id}`)
        if (made) this.#copy(uuid, `${uuid}/${id}`)
        return { made, sizeBytes: 1_000_000 }
      },
      restore: async (uuid, id) => {
        await meet('restore', uuid)
        this.#copy(`${uuid}/${id}`, uuid)
      },
      listSnapshots: async (uuid) =>
        this.pathsOf(uuid).flatMap((path) => (path[36] === '/' ? [path.slice(37)] : [])),
      deleteSnapshot: async (uuid, id) => {
        await meet('deleteSnapshot', uuid)
        return this.delete(`${uuid}/${id}`)
      },
      remove: async (uuid) => {
        await meet('remove', uuid)
        for (const path of this.pathsOf(uuid)) this.delete(path)
      },
      list: async () => this.list(),
      usage: async () => new Map(this.list().map((uuid) => [uuid, 1_000_000])),
      sweep: async () => undefined,
      ensureLimits: async () => [],
    }
  }
}
