import { randomUUID } from 'node:crypto'
import type { Readable } from 'node:stream'
import { BerthError, conflict, invalidField } from '../../shared/errors.js'
import { archiveTree, type TreeReader } from '../host/disk/copy-tree.js'
import type { GuestContext } from '../guests/context.js'
import { parseUuid } from '../guests/create/parse-create.js'
import { refuseDeleted } from '../guests/deletion/plan-deletion.js'
import { refuseNotOwned } from '../guests/moves/change-ownership.js'
import type { GuestRecord } from '../guests/record/record.js'
import { manifestName } from '../images/sources/container-export.js'
import { takeHidden } from '../guests/snapshots/snapshot-space.js'
import { exportPrefix, isExportSnapshot } from '../guests/snapshots/snapshots.js'
import { whileFrozen } from '../guests/snapshots/while-frozen.js'
import { checkFree } from '../storage/room.js'
import type { PoolCapacity } from '../storage/pool.js'
import { compressHead, compressions, tarEntry, type Compression } from './archive-head.js'
import { makeManifest, rootName } from './manifest.js'

export interface ExportsParts {
  readonly context: GuestContext
  readonly readDisk: () => Promise<PoolCapacity>
}

export interface ExportRequest {
  readonly uuid: string
  readonly compression: string
  /** True if the archive may contain note and tags, which only the provider sees. */
  readonly includeLabels: boolean
}

/** An archive that is being created. The caller must call `close`, even after an error. */
export interface OpenExport {
  /** Parts of the archive. Ends with an error if the archive is not complete. */
  readonly parts: AsyncIterable<Buffer>
  /**
   * Ends the export, and deletes its snapshot. Never rejects. Can be repeated. The snapshot has raised the guest's disk
   * limit, which the reconciler lowers later.
   */
  close(): Promise<void>
}

/** Maximum number of exports that run on a host at the same time. */
const mostExports = 2

interface RunningExport {
  readonly uuid: string
  readonly snapshot: string
  readonly end: AbortController
  /** Resolves when the snapshot was deleted. */
  readonly ended: Promise<void>
  /** The programs that read the snapshot. Undefined: they were not started yet. */
  reader?: TreeReader
}

/** Creates archives of guests and sends them meanwhile. Each export reads a hidden snapshot of its own. */
export class Exports {
  readonly #running = new Set<RunningExport>()

  constructor(private readonly parts: ExportsParts) {}

  /**
   * Begins an export.
   * @throws {BerthError} `invalid_field`, `not_found`, `unsupported`, `invalid_state`, `resource_exhausted`
   */
  async open(request: ExportRequest): Promise<OpenExport> {
    const uuid = parseUuid('uuid', request.uuid)
    const compression = parseCompression(request.compression)
    await this.#waitForEnding()
    refuse(this.parts.context.store.get(uuid))
    this.#refuseBusy(uuid)
    let ended = (): void => undefined
    const running: RunningExport = {
      uuid,
      snapshot: `${exportPrefix}${randomUUID()}`,
      end: new AbortController(),
      ended: new Promise((done) => (ended = done)),
    }
    this.#running.add(running)
    let closing: Promise<void> | undefined
    const close = (): Promise<void> => (closing ??= this.#close(running).finally(ended))
    try {
      await this.#takeSnapshot(running)
      const head = await this.#makeHead(request, compression)
      return { parts: this.#read(running, head, compression), close }
    } catch (error) {
      await close()
      throw error
    }
  }

  /** Deletes snapshots of exports that no longer run, for example because the agent was killed. */
  async sweep(): Promise<void> {
    const { volumes } = this.parts.context
    for (const uuid of await volumes.list())
      for (const id of (await volumes.listSnapshots(uuid)).filter(isExportSnapshot))
        if (![...this.#running].some(({ snapshot }) => snapshot === id)) await volumes.deleteSnapshot(uuid, id)
  }

  /** Ends all exports. Resolves when their snapshots were deleted. */
  async close(): Promise<void> {
    const all = [...this.#running]
    for (const { end } of all) end.abort(new BerthError('unavailable', 'host_offline', 'the agent is stopping'))
    await Promise.all(all.map(({ ended }) => ended))
  }

  /** Waits until ended exports have deleted their snapshots, because a gateway can repeat its request at once. */
  async #waitForEnding(): Promise<void> {
    const ending = [...this.#running].filter(({ end }) => end.signal.aborted)
    await Promise.all(ending.map(({ ended }) => ended))
  }

  #refuseBusy(uuid: string): void {
    if ([...this.#running].some((running) => running.uuid === uuid))
      throw conflict('invalid_state', 'the container is being exported already: wait for the end of that export')
    if (this.#running.size >= mostExports)
      throw conflict(
        'resource_exhausted',
        `at most ${mostExports} exports can run on the host: wait for the end of another one`,
      )
  }

  async #takeSnapshot({ uuid, snapshot }: RunningExport): Promise<void> {
    const { context, readDisk } = this.parts
    checkFree(await readDisk())
    await context.store.mutex.run(uuid, async () => {
      const record = context.store.get(uuid)
      refuse(record)
      await whileFrozen(context, record, () => takeHidden(context, uuid, snapshot))
    })
  }

  /** Returns the first part of the archive: the compressed manifest. */
  async #makeHead({ uuid, includeLabels }: ExportRequest, compression: Compression): Promise<Buffer> {
    const { now, store } = this.parts.context
    const nowMs = now()
    const manifest = makeManifest(store.get(uuid), { nowMs, includeLabels })
    const content = Buffer.from(`${JSON.stringify(manifest, undefined, 2)}\n`)
    return compressHead(tarEntry(manifestName, content, new Date(nowMs)), compression)
  }

  async *#read(running: RunningExport, head: Buffer, compression: Compression): AsyncGenerator<Buffer> {
    const { uuid, snapshot, end } = running
    yield head
    end.signal.throwIfAborted()
    const tree = this.parts.context.volumes.snapshotPathOf(uuid, snapshot)
    const reader = (running.reader = archiveTree(tree, { compression, directory: rootName }))
    const stop = (): void => void stopReader(reader)
    end.signal.addEventListener('abort', stop, { once: true })
    try {
      for await (const part of reader.child.stdout as Readable & AsyncIterable<Buffer>) yield part
      end.signal.throwIfAborted()
      await reader.ended
    } finally {
      end.signal.removeEventListener('abort', stop)
      await stopReader(reader)
    }
  }

  async #close(running: RunningExport): Promise<void> {
    const { context } = this.parts
    const { uuid, snapshot, end } = running
    end.abort(conflict('invalid_state', 'the export was ended'))
    try {
      if (running.reader) await stopReader(running.reader)
      await context.volumes.deleteSnapshot(uuid, snapshot)
    } catch (err) {
      context.log.warn({ err, guest: uuid }, 'could not delete the snapshot of an export; the agent tries again later')
    } finally {
      this.#running.delete(running)
    }
  }
}

/** Kills the programs that read a snapshot, and waits until they no longer use it. */
async function stopReader({ child, ended }: TreeReader): Promise<void> {
  child.kill('SIGKILL')
  child.stdout.destroy()
  await ended.catch(() => undefined)
}

function parseCompression(text: string): Compression {
  const found = compressions.find((one) => one === text)
  if (!found) throw invalidField('compression', `compression: must be one of ${compressions.join(', ')}`)
  return found
}

/** @throws {BerthError} `unsupported`, `invalid_state` */
function refuse(record: GuestRecord): void {
  if (record.spec.virtualization !== 'lxc')
    throw new BerthError('invalid', 'unsupported', 'only LXC containers can be exported, and not virtual machines')
  if (record.status === 'creating' || record.status === 'deleting')
    throw conflict(
      'invalid_state',
      `the container is ${record.status === 'creating' ? 'being created' : 'being deleted'}`,
    )
  refuseNotOwned(record)
  refuseDeleted(record)
}
