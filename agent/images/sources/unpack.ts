import { open, rm } from 'node:fs/promises'
import { WaitBudget } from '../../../shared/async/wait-budget.js'
import { BerthError } from '../../../shared/errors.js'
import { deviceFiles, planUntar } from '../../host/disk/plan-tar.js'
import { CommandError, runPerl } from '../../host/process/process.js'
import { feed, startUnpacker } from '../../host/disk/stream-unpacker.js'
import { takeOnlyFile, unwrapExport } from './container-export.js'

/** Time in ms for unpacking. While an archive is received, only the time counts for which the unpacker is awaited. */
const timeoutMs = 30 * 60_000
/**
 * Processor time in seconds of each program. It also limits how much an archive can write that contains a file many
 * times: the disk limit does not, because each copy replaces the one before.
 */
const processorSeconds = 1800

/** Memory limit of each program in bytes. xz -9 and zstd need a tenth of this limit, but a file could request 4 GiB. */
const memoryBytes = 1024 ** 3

/** First bytes in hex of each format that tar can unpack, and tar's option for it. */
const compressions: readonly (readonly [magic: string, option: string])[] = [
  ['04224d18', '--use-compress-program=lz4'],
  ['fd377a585a00', '--xz'],
  ['28b52ffd', '--zstd'],
  ['1f8b', '--gzip'],
  ['425a68', '--bzip2'],
]

export interface UnpackOrder {
  readonly archive: string
  /** An empty subvolume with a size limit. */
  readonly target: string
  /** First of 65,536 unused user ids of the host. */
  readonly hostIdBase: number
  /** True if `user.` attributes of files in tar archives are preserved, too. Default: false. */
  readonly keepsUserAttributes?: boolean
}

/**
 * Unpacks an untrusted root filesystem with GNU tar or unzip in a user namespace, so that nothing outside `target`
 * changes. Preserves owners, modes, ACLs and file capabilities. Leaves out `/dev`, which the host fills. Also leaves
 * out files of an LXD or Incus export that are outside its root filesystem. The archive is not changed.
 * @throws {BerthError} `image_invalid`, or `image_too_large` if the content exceeds the limit of `target`; the signal's
 * reason when aborted
 */
export async function unpackArchive(order: UnpackOrder, signal: AbortSignal): Promise<void> {
  if (await unpackOnce(order, signal)) {
    const inner = await takeOnlyFile(order.target)
    if (inner !== undefined) await unpackInner({ ...order, archive: inner }, signal)
  }
  await unwrapExport(order.target)
}

export type StreamOrder = Omit<UnpackOrder, 'archive'>

/** The first bytes of an archive that decide how it is unpacked. */
const magicBytes = 6

/**
 * Unpacks an untrusted tar archive while it is received, like `unpackArchive`. Zip archives are refused, because their
 * list of files is at their end.
 * @throws {BerthError} `image_invalid`, `image_too_large`; the error of `parts`; the signal's reason when aborted
 */
export async function unpackStream(
  order: StreamOrder,
  parts: AsyncIterable<Buffer>,
  signal: AbortSignal,
): Promise<void> {
  const iterator = parts[Symbol.asyncIterator]()
  let head = Buffer.alloc(0)
  while (head.length < magicBytes) {
    const part = await iterator.next()
    if (part.done) throw invalidArchive('it is too short')
    head = Buffer.concat([head, part.value])
  }
  const magic = head.toString('hex', 0, magicBytes)
  if (magic.startsWith(zipMagic)) throw invalidArchive('zip archives cannot be received')
  const program = startUnpacker(order, planTar(order, compressionOption(magic)))
  const stop = (): void => void program.kill()
  signal.addEventListener('abort', stop, { once: true })
  try {
    await feed(program, head, { next: () => iterator.next() }, new WaitBudget(timeoutMs, tooExpensive))
  } catch (error) {
    signal.throwIfAborted()
    throw error instanceof CommandError ? unpackError(error) : error
  } finally {
    signal.removeEventListener('abort', stop)
    program.kill()
    await program.ended.catch(() => undefined) // the caller may delete the target
  }
  signal.throwIfAborted()
  await unwrapExport(order.target)
}

/** Unpacks an archive that is the only file in a zip archive. Build artifacts usually have this form. */
async function unpackInner(order: UnpackOrder, signal: AbortSignal): Promise<void> {
  if (await unpackOnce(order, signal)) throw invalidArchive('it is a zip archive inside a zip archive')
  await rm(order.archive, { force: true })
}

/** Unpacks an archive, but not an archive inside it. @returns true if the outer archive is a zip archive */
async function unpackOnce(order: UnpackOrder, signal: AbortSignal): Promise<boolean> {
  const magic = await readMagic(order.archive)
  const isZip = magic.startsWith(zipMagic)
  const command = isZip ? planUnzip() : planTar(order, compressionOption(magic))
  await runUnpacker(order, command, signal)
  return isZip
}

async function runUnpacker(
  { archive, target, hostIdBase }: UnpackOrder,
  command: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  try {
    await runPerl('unpack-tree', [archive, target, String(hostIdBase), ...command], {
      timeoutMs,
      signal,
      maxOutputBytes: 1 << 20,
    })
  } catch (error) {
    signal.throwIfAborted()
    throw error instanceof CommandError ? unpackError(error) : error
  }
}

const zipMagic = '504b0304'
const bounded = ['prlimit', `--data=${memoryBytes}`, `--cpu=${processorSeconds}`]

/**
 * Returns the command of unzip, which preserves owners and special modes if the archive contains them. unzip needs the
 * path of the file, because it first reads the list of files at the end of the archive.
 */
function planUnzip(): string[] {
  return [...bounded, 'unzip', '-q', '-o', '-X', '-K', '/archive', '-x', ...deviceFiles]
}

/** Returns the command of tar that unpacks its standard input. @param compression option of tar, or '' */
function planTar(
  { keepsUserAttributes = false }: Pick<UnpackOrder, 'keepsUserAttributes'>,
  compression: string,
): string[] {
  const attributes = ['security.capability', ...(keepsUserAttributes ? ['user.*'] : [])]
  return [...bounded, ...planUntar({ attributes }), ...(compression ? [compression] : [])]
}

/** Returns the option of tar for an archive that begins with these bytes. '': it is not compressed. */
export function compressionOption(magic: string): string {
  return compressions.find(([first]) => magic.startsWith(first))?.[1] ?? ''
}

async function readMagic(archive: string): Promise<string> {
  const handle = await open(archive)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(6), 0, 6, 0)
    return buffer.toString('hex', 0, bytesRead)
  } finally {
    await handle.close()
  }
}

/** Exit code of `unpack-tree` if its program was killed, for example because of too much processor time. */
const killedCode = 128 + 9
/** Message of tar about a decompressor that was killed. */
const childKilled = /Child died with signal 9/

/** Converts the failure of tar or unzip to the error for users. */
export function unpackError(cause: CommandError): BerthError {
  if (cause.code === killedCode || childKilled.test(cause.stderr)) return tooExpensive(cause)
  if (/Disk quota exceeded|No space left on device|disk full/.test(cause.stderr))
    return new BerthError('exhausted', 'image_too_large', 'the archive needs more space than an image can have', {
      cause,
    })
  if (cause.stderr.startsWith('/archive: '))
    return invalidArchive(
      'a zip archive must be on a file system with idmapped mounts, such as btrfs, ext4 or XFS',
      cause,
    )
  return invalidArchive('it is damaged, or its format is not supported', cause)
}

function tooExpensive(cause?: unknown): BerthError {
  return invalidArchive('it needs too much time or memory', cause)
}

function invalidArchive(why: string, cause?: unknown): BerthError {
  return new BerthError('invalid', 'image_invalid', `the archive cannot be unpacked: ${why}`, { cause })
}
