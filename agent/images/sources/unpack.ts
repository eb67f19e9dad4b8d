import { open } from 'node:fs/promises'
import { BerthError } from '../../../shared/errors.js'
import { readIsolatedProgram } from '../../host/perl-program.js'
import { CommandError, runPerl } from '../../host/process.js'

const unpackProgram = readIsolatedProgram('unpack-tree')
const timeoutMs = 30 * 60_000

/** Of each program: what xz -9 and zstd ask for is a tenth of it, and a header may ask for 4 GiB. */
const memoryBytes = 1024 ** 3

/** First bytes of what tar can unpack, and how it is told. */
const compressions: readonly (readonly [magic: string, option: string])[] = [
  ['fd377a585a00', '--xz'],
  ['28b52ffd', '--zstd'],
  ['1f8b', '--gzip'],
  ['425a68', '--bzip2'],
]

export interface UnpackOrder {
  readonly archive: string
  /** An empty subvolume, bounded. */
  readonly target: string
  /** First of 65,536 host user ids that nobody has. */
  readonly hostIdBase: number
}

/**
 * Unpacks a root filesystem from anybody, by GNU tar in a user namespace: nothing outside `target` is touched. Owners,
 * modes, ACLs and file capabilities are kept; `/dev` is left out, for the host fills it.
 * @throws {BerthError} `image_invalid`, `image_too_large` (than the bound of `target`); the signal's reason when aborted
 */
export async function unpackArchive(order: UnpackOrder, signal: AbortSignal): Promise<void> {
  const option = await readCompression(order.archive)
  try {
    await runPerl(
      unpackProgram,
      [order.archive, order.target, String(order.hostIdBase), ...planTar(option)],
      { timeoutMs, signal, maxOutputBytes: 1 << 20 },
    )
  } catch (error) {
    signal.throwIfAborted()
    throw error instanceof CommandError ? unpackError(error) : error
  }
}

function planTar(compression: string): string[] {
  return [
    ...[
      'prlimit',
      `--data=${memoryBytes}`,
      'tar',
      '--extract',
      '--file=-',
      ...(compression ? [compression] : []),
    ],
    ...['--numeric-owner', '--same-owner', '--preserve-permissions', '--acls'],
    ...['--xattrs', '--xattrs-include=security.capability', '--warning=no-timestamp'],
    ...['--anchored', '--exclude=dev/*', '--exclude=./dev/*'],
  ]
}

async function readCompression(archive: string): Promise<string> {
  const handle = await open(archive)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(6), 0, 6, 0)
    const magic = buffer.toString('hex', 0, bytesRead)
    return compressions.find(([first]) => magic.startsWith(first))?.[1] ?? ''
  } finally {
    await handle.close()
  }
}

function unpackError(cause: CommandError): BerthError {
  if (/Disk quota exceeded|No space left on device/.test(cause.stderr))
    return new BerthError('exhausted', 'image_too_large', 'what is in the archive does not fit', { cause })
  return new BerthError('invalid', 'image_invalid', 'the archive cannot be unpacked', { cause })
}
