import { randomBytes, randomUUID } from 'node:crypto'
import { rm, stat } from 'node:fs/promises'
import { Semaphore } from '../../shared/async/semaphore.js'
import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import { conflict } from '../../shared/errors.js'
import { treeName } from '../host/guest/beside-tree.js'
import { readLayout, type LayoutSpace } from '../host/disk/file-layout.js'
import type {
  BackupNote,
  BackupRepositories,
  BackupSize,
  FetchedBackup,
  Repository,
  SentBackup,
  StoredBackup,
  WorkContext,
} from './contract.js'
import { fetchTree, layoutName, transferMs } from './fetch-tree.js'
import { isAbsent } from './plan-failure.js'
import { parseResticMessage, parseSnapshots, planTags, type ResticSnapshot } from './plan-restic.js'
import { Restic, type ResticOptions } from './restic.js'

/** Name of the repository at each target that `probe` uses for its test backup. */
const probeName = 'berth-check'

export interface ResticRepositoriesOptions extends ResticOptions {
  readonly parallel: number
}

/** Stores the backups of each guest in a separate restic repository in the target's folder (docs/design/backups.md). */
export class ResticRepositories implements BackupRepositories {
  readonly #options: ResticRepositoriesOptions
  readonly #slots: Semaphore

  constructor(options: ResticRepositoriesOptions) {
    this.#options = options
    this.#slots = new Semaphore(options.parallel)
  }

  send(
    at: Repository,
    { id, tree, note }: { id: string; tree: string; note: BackupNote },
    watch: WorkContext,
  ): Promise<SentBackup> {
    return this.#transfer(at, watch, async (restic) => {
      const known = (await findSnapshots(restic)) ?? (await createRepository(restic))
      const sent = known.find(({ backup }) => backup.id === id)
      if (sent) return { sizeBytes: (await readSize(restic, sent)).sizeBytes, storedBytes: 0 }
      const layout = await this.#describe(tree, restic.pathOf(layoutName), watch)
      const source = { id, tree, note: { ...note, ...layout }, hasLayout: layout !== undefined }
      return backUp(restic, { ...source, guest: at.guest, parent: known.at(-1)?.snapshotId }, watch)
    })
  }

  /** Writes the layout file. A failure is only logged, because without this file a restore just needs more space. */
  async #describe(tree: string, layout: string, { signal }: WorkContext): Promise<LayoutSpace | undefined> {
    try {
      return await readLayout(tree, layout, signal)
    } catch (err) {
      signal.throwIfAborted()
      this.#options.log.warn(
        { err, tree },
        'the backup does not record which parts of the disk are empty or shared: after a restore, the disk will use more space than now',
      )
      return undefined
    }
  }

  verify(at: Repository, percent: number, watch: WorkContext): Promise<void> {
    return this.#transfer(at, watch, (restic) => check(restic, percent))
  }

  readSize(at: Repository, id: string, watch: WorkContext): Promise<BackupSize> {
    return this.#ask(at, watch, async (restic) => readSize(restic, await getSnapshot(restic, id)))
  }

  fetch(at: Repository, { id, ...fetched }: FetchedBackup, watch: WorkContext): Promise<void> {
    return this.#transfer(at, watch, async (restic) => {
      const found = await getSnapshot(restic, id)
      watch.report(0, 'fetching')
      await fetchTree({ ...fetched, restic, watch, snapshot: found })
    })
  }

  forget(at: Repository, id: string, watch: WorkContext): Promise<void> {
    return this.#ask(at, watch, async (restic) => {
      const found = ((await findSnapshots(restic)) ?? []).filter(({ backup }) => backup.id === id)
      const snapshots = found.map(({ snapshotId }) => snapshotId)
      if (snapshots.length === 0) return
      await restic.run({ args: ['unlock'] }) // removes locks of killed processes; locks of running ones stay
      await restic.run({ args: ['forget', ...snapshots, '--prune'], timeoutMs: transferMs })
    })
  }

  list(at: Repository, watch: WorkContext): Promise<StoredBackup[]> {
    return this.#ask(at, watch, async (restic) => ((await findSnapshots(restic)) ?? []).map(({ backup }) => backup))
  }

  async probe(target: BackupTarget, watch: WorkContext): Promise<void> {
    const content = randomBytes(4096)
    await this.#ask({ target, guest: probeName }, watch, async (restic) => {
      if (!(await findSnapshots(restic))) await createRepository(restic)
      const tag = randomUUID()
      await restic.run({ args: ['backup', '--stdin', '--host', probeName, '--tag', tag], stdin: content })
      const made = (await findSnapshots(restic))?.find(({ backup }) => backup.id === tag)
      if (!made) throw conflict('backup_damaged', 'the target does not contain the test data that was just sent to it')
      await check(restic, 100)
      await restic.run({ args: ['unlock'] })
      await restic.run({ args: ['forget', made.snapshotId, '--prune'] })
    })
  }

  async sweep(): Promise<void> {
    await rm(this.#options.directory, { recursive: true, force: true })
  }

  #transfer<T>(at: Repository, watch: WorkContext, work: (restic: Restic) => Promise<T>): Promise<T> {
    return this.#slots.run(() => this.#ask(at, watch, work), watch.signal)
  }

  async #ask<T>(
    { target, guest: name }: Repository,
    watch: WorkContext,
    work: (restic: Restic) => Promise<T>,
  ): Promise<T> {
    await checkFolder(target)
    return Restic.with(this.#options, { target, name, watch }, work)
  }
}

/** Throws if a target's folder does not exist. Does not create the folder, because its disk may not be mounted yet. */
async function checkFolder({ place }: BackupTarget): Promise<void> {
  if (place?.$case !== 'local') return
  const found = await stat(place.value.path).catch(() => undefined)
  if (!found?.isDirectory())
    throw conflict('backup_target_unreachable', `the folder ${place.value.path} does not exist on this host`)
}

/** Returns the snapshots; undefined if the repository does not exist. */
async function findSnapshots(restic: Restic): Promise<ResticSnapshot[] | undefined> {
  try {
    const { stdout } = await restic.run({ args: ['snapshots', '--json', '--no-lock'] })
    return parseSnapshots(stdout)
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw error
  }
}

async function createRepository(restic: Restic): Promise<ResticSnapshot[]> {
  await restic.run({ args: ['init', '--repository-version', '2'] })
  return []
}

/** @throws {BerthError} `backup_missing` */
async function getSnapshot(restic: Restic, id: string): Promise<ResticSnapshot> {
  const found = (await findSnapshots(restic))?.find(({ backup }) => backup.id === id)
  if (!found) throw conflict('backup_missing', 'the target does not contain this backup of the container')
  return found
}

async function readSize(restic: Restic, { snapshotId, backup }: ResticSnapshot): Promise<BackupSize> {
  const args = ['stats', '--mode', 'restore-size', '--json', '--no-lock', snapshotId]
  const { stdout } = await restic.run({ args, timeoutMs: transferMs })
  const told = JSON.parse(stdout) as { total_size?: unknown; total_file_count?: unknown }
  const { createdBy: _by, description: _text, scheduled: _cause, id: _id, createdAtMs: _at, ...rest } = backup
  const { settings: _settings, ...facts } = rest
  return { sizeBytes: Number(told.total_size) || 0, fileCount: Number(told.total_file_count) || 0, ...facts }
}

interface BackupSource {
  readonly id: string
  readonly tree: string
  readonly note: BackupNote
  readonly hasLayout: boolean
  readonly guest: string
  /** Earlier snapshot with which restic compares files, so that it does not read unchanged files. */
  readonly parent: string | undefined
}

async function backUp(restic: Restic, sent: BackupSource, watch: WorkContext): Promise<SentBackup> {
  let summary: SentBackup | undefined
  let doneBytes = 0
  const tags = planTags(sent.id, sent.note).flatMap((tag) => ['--tag', tag])
  const { code } = await restic.run({
    args: [
      'backup',
      treeName,
      ...(sent.hasLayout ? [layoutName] : []),
      '--json',
      '--host',
      sent.guest,
      ...tags,
      ...(sent.parent ? ['--parent', sent.parent] : ['--force']),
    ],
    tree: sent.tree,
    timeoutMs: transferMs,
    okCodes: [0, 3],
    onStdoutLine: (line) => {
      const message = parseResticMessage(line)
      if (message?.kind === 'summary') summary = message
      if (message?.kind !== 'status') return false
      watch.report(shareOf(message), 'sending')
      const hasMoved = message.doneBytes > doneBytes
      doneBytes = Math.max(doneBytes, message.doneBytes)
      return hasMoved
    },
  })
  if (code === 3)
    throw conflict('backup_incomplete', 'the backup is incomplete: some files of the container could not be read')
  if (!summary) throw conflict('backup_target_failed', 'restic did not report how much data it sent')
  return { sizeBytes: summary.sizeBytes, storedBytes: summary.storedBytes }
}

function shareOf({ doneBytes, totalBytes }: { doneBytes: number; totalBytes: number }): number {
  return totalBytes > 0 ? doneBytes / totalBytes : 0
}

/** Checks the structure of the repository, and compares a sample of its data with the checksums. */
async function check(restic: Restic, percent: number): Promise<void> {
  const share = percent >= 100 ? ['--read-data'] : percent > 0 ? [`--read-data-subset=${percent}%`] : []
  await restic.run({ args: ['check', '--no-lock', ...share], timeoutMs: transferMs })
}
