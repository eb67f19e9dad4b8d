import type { BackupTarget } from '../../../proto/gen/berth/agent/v1/backup.js'
import type {
  BackupRepositories,
  BackupSize,
  FetchedBackup,
  Repository,
  StoredBackup,
  WorkContext,
} from '../../../agent/backups/contract.js'
import { conflict } from '../../../shared/errors.js'

interface MemoryBackup extends StoredBackup {
  readonly content: string
}

/** Hooks that a test sets, by the names of calls. A hook may wait, or throw an error of the target. */
export type BackupFaults = Partial<Record<keyof BackupRepositories, (watch: WorkContext) => void | Promise<void>>>

/** The parts of a simulated host that backups read and write. */
export interface BackedUp {
  readonly snapshots: ReadonlyMap<string, ReadonlyMap<string, string>>
  readonly next: Map<string, string>
  readonly backupFaults: BackupFaults
  readonly backupBytes: number
}

/** Backups by the ids of their target, guest and backup. All hosts of a test share them. */
export const memoryTargets = new Map<string, Map<string, Map<string, MemoryBackup>>>()

/** Implements backup repositories in memory. The content of a disk is a text. */
export class MemoryBackups implements BackupRepositories {
  constructor(private readonly host: BackedUp) {}

  async send(at: Repository, { id, tree, note }: Parameters<BackupRepositories['send']>[1], watch: WorkContext) {
    await this.#meet('send', watch)
    const [, guest, snapshot] = /^\/nowhere\/([^/]+)\/([^/]+)$/.exec(tree)!
    const content = this.host.snapshots.get(guest!)?.get(snapshot!)
    if (content === undefined) throw new Error(`no snapshot ${tree}`)
    keptOf(at).set(id, { id, content, createdAtMs: Date.now(), ...note })
    return { sizeBytes: this.host.backupBytes, storedBytes: 1_000_000 }
  }

  async verify(_at: Repository, _percent: number, watch: WorkContext): Promise<void> {
    await this.#meet('verify', watch)
  }

  async readSize(at: Repository, id: string, watch: WorkContext): Promise<BackupSize> {
    await this.#meet('readSize', watch)
    const { templateId = '', virtualization, firewall } = getKept(at, id)
    return {
      sizeBytes: this.host.backupBytes,
      fileCount: 1,
      usedBytes: this.host.backupBytes,
      templateId,
      ...(virtualization && { virtualization }),
      ...(firewall !== undefined && { firewall }),
    }
  }

  async fetch(at: Repository, { id, tree }: FetchedBackup, watch: WorkContext): Promise<void> {
    await this.#meet('fetch', watch)
    const [, guest] = /^\/nowhere\/([^/]+)\.next$/.exec(tree)!
    this.host.next.set(guest!, getKept(at, id).content)
  }

  async forget(at: Repository, id: string, watch: WorkContext): Promise<void> {
    await this.#meet('forget', watch)
    keptOf(at).delete(id)
  }

  async list(at: Repository, watch: WorkContext): Promise<StoredBackup[]> {
    await this.#meet('list', watch)
    return [...keptOf(at).values()]
  }

  async probe(_target: BackupTarget, watch: WorkContext): Promise<void> {
    await this.#meet('probe', watch)
  }

  async sweep(): Promise<void> {
    // There is nothing to remove: a process that has ended leaves nothing in memory.
  }

  async #meet(method: keyof BackupRepositories, watch: WorkContext): Promise<void> {
    watch.signal.throwIfAborted()
    await this.host.backupFaults[method]?.(watch)
  }
}

function keptOf({ target, guest }: Repository): Map<string, MemoryBackup> {
  const guests = memoryTargets.get(target.id) ?? new Map<string, Map<string, MemoryBackup>>()
  memoryTargets.set(target.id, guests)
  const kept = guests.get(guest) ?? new Map<string, MemoryBackup>()
  guests.set(guest, kept)
  return kept
}

function getKept(at: Repository, id: string): MemoryBackup {
  const found = keptOf(at).get(id)
  if (!found) throw conflict('backup_missing', 'no such backup')
  return found
}
