import { mkdtemp, open, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import { parseManifest, type ExportManifest } from '../exports/manifest.js'
import { manifestName } from '../images/sources/container-export.js'
import { CommandError, runPerl } from '../host/process/process.js'
import { compressionOption } from '../images/sources/unpack.js'

/** The manifest is the first file of an export, and smaller than this number of bytes. */
const headBytes = 1024 ** 2
/** Memory limit of each program in bytes. The compressions of exports need less. */
const memoryBytes = 128 * 1024 ** 2

/** The sandbox in which manifests are read. */
export interface ManifestSandbox {
  /** A directory on a file system with idmapped mounts. */
  readonly directory: string
  /** First of 65,536 unused user ids of the host. */
  readonly hostIdBase: number
  /** Timeout in ms. Default: that of `runPerl`. */
  readonly timeoutMs?: number
}

/**
 * Reads the manifest in the first bytes of an untrusted archive, in the sandbox in which archives are unpacked. Returns
 * `undefined` if the archive has no manifest, for example because it is not an export of Berth.
 * @throws {BerthError} `image_invalid` if the manifest is damaged, has an unknown version, or takes too long to read;
 * the signal's reason when aborted
 */
export async function readManifest(
  head: Buffer,
  sandbox: ManifestSandbox,
  signal?: AbortSignal,
): Promise<ExportManifest | undefined> {
  const { directory, hostIdBase, timeoutMs } = sandbox
  const target = await mkdtemp(join(directory, '.manifest-'))
  try {
    const command = planRead(compressionOption(head.toString('hex', 0, 6)))
    const { stdout } = await runPerl('unpack-tree', ['-', target, String(hostIdBase), ...command], {
      stdin: head,
      okCodes: [0, 1, 2], // tar fails because the rest of the archive is missing
      maxOutputBytes: headBytes,
      ...(timeoutMs !== undefined && { timeoutMs }),
      ...(signal && { signal }),
    })
    return stdout === '' ? undefined : parseManifest(stdout)
  } catch (error) {
    signal?.throwIfAborted()
    throw error instanceof CommandError ? unreadable(error) : error
  } finally {
    await rmdir(target)
  }
}

/** Error for a manifest that is too long, or whose program was killed, for example after its timeout. */
function unreadable(cause: CommandError): BerthError {
  const message = `the manifest ${manifestName} at the beginning of the archive cannot be read`
  return new BerthError('invalid', 'image_invalid', message, { cause })
}

function planRead(compression: string): string[] {
  const options = ['--extract', '--to-stdout', '--occurrence=1', '--file=-', ...(compression ? [compression] : [])]
  return ['prlimit', `--data=${memoryBytes}`, 'tar', ...options, '--', manifestName]
}

/** Reads the part of an archive that contains the manifest. */
export async function readHead(archive: string): Promise<Buffer> {
  const handle = await open(archive)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(headBytes), 0, headBytes, 0)
    return buffer.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}
