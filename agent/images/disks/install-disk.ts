import { chmod, chown, lstat, open, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BerthError } from '../../../shared/errors.js'
import { disableCopyOnWrite } from '../../host/disk/btrfs.js'
import { CommandError, type RunResult } from '../../host/process/process.js'
import { runInSandbox } from '../../host/process/sandbox.js'
import type { FirmwareWish } from '../../host/guest/firmware.js'
import type { CatalogEntry } from '../catalog.js'
import type { InstallParts } from '../install.js'
import { makeImage, type BuildContext } from '../publish.js'
import { headerBytes, parseHeader, type DiskFormat } from './parse-header.js'

export const diskName = 'disk.raw'
const unpackedName = 'unpacked'
const timeoutMs = 60 * 60_000

/** Name of a file next to the disk. It describes the virtual hardware that the operating system on the disk needs. */
const systemName = 'system.json'

interface DiskOrder extends Pick<CatalogEntry, 'id' | 'os' | 'machine'> {
  readonly archive: string
}

interface Place {
  readonly work: string
  readonly userId: number
  readonly mostBytes: number
  readonly signal: AbortSignal
}

/**
 * Creates the image of a virtual machine's disk from an untrusted file: qcow2 or raw, compressed or not. A
 * failure leaves no image. Programs that parse disk formats run in a sandbox, and only on a file with a checked header.
 * @throws {BerthError} `image_invalid`, `image_too_large`, `storage_full`; the signal's reason when aborted
 */
export async function installDisk(
  parts: InstallParts,
  { id, archive, os, machine }: DiskOrder,
  making: BuildContext,
): Promise<void> {
  making.report(0.75, 'converting')
  const mostBytes = await parts.readBound()
  await makeImage(parts, id, making, async (work) => {
    await disableCopyOnWrite(work)
    const place = { work, userId: parts.hostIdBase, mostBytes, signal: making.signal }
    try {
      await takeDisk(archive, place)
    } finally {
      for (let layer = 1; layer <= mostLayers; layer++) await rm(join(work, `${unpackedName}${layer}`), { force: true })
    }
    await takeOver(work)
    await describeSystem(work, { os, ...machine })
  })
}

/** Writes which operating system and firmware a disk needs. Each start of a guest reads the copy in its volume. */
async function describeSystem(work: string, system: Pick<DiskOrder, 'os'> & Partial<FirmwareWish>): Promise<void> {
  await writeFile(join(work, systemName), `${JSON.stringify(system)}\n`, { mode: 0o600 })
}

/** Maximum number of layers around a disk. A compressed archive has two layers. */
const mostLayers = 2

async function takeDisk(archive: string, place: Place): Promise<void> {
  const found = new Set<string>()
  for (let file = archive; ;) {
    const format = await readFormat(file, place.mostBytes)
    if (format.kind === 'raw' || format.kind === 'qcow2') return convert(file, format, place)
    if (found.has(format.kind))
      throw new BerthError(
        'invalid',
        'image_invalid',
        `not a disk image: it is a ${format.kind} file inside another ${format.kind} file`,
      )
    found.add(format.kind)
    file = await unpackLayer(file, format, { ...place, output: `${unpackedName}${found.size}` })
  }
}

type Layer = Extract<DiskFormat, { kind: 'compressed' | 'archive' }>

/** Unpacks an archive or a compressed file. @returns the path of the result, in the directory of `place` */
async function unpackLayer(
  file: string,
  layer: Layer,
  { output, ...place }: Place & { readonly output: string },
): Promise<string> {
  if (layer.kind === 'archive') await checkFiles(file, layer.list, place)
  const command = layer.kind === 'archive' ? layer.extract : layer.command
  await sandboxed(place, { input: file, output, mostBytes: place.mostBytes }, command)
  return join(place.work, output)
}

/** Rejects an archive with several files, because it is not known which of them is the disk. */
async function checkFiles(file: string, list: readonly string[] | undefined, place: Place): Promise<void> {
  if (list === undefined) return
  const { stdout } = await sandboxed(place, { input: file, mostBytes: 0 }, list)
  const files = stdout.split('\n').filter((name) => name !== '' && !name.endsWith('/'))
  if (files.length !== 1)
    throw new BerthError('invalid', 'image_invalid', 'not a disk image: a zip archive must contain one file, the disk')
}

async function readFormat(file: string, mostBytes: number): Promise<DiskFormat> {
  const handle = await open(file)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(headerBytes), 0, headerBytes, 0)
    return parseHeader(buffer.subarray(0, bytesRead), mostBytes)
  } finally {
    await handle.close()
  }
}

/** Converts a disk of the format that `parseHeader` found. A tool that guesses the format could open other files. */
async function convert(
  file: string,
  format: Extract<DiskFormat, { kind: 'qcow2' | 'raw' }>,
  place: Place,
): Promise<void> {
  const bytes = format.kind === 'qcow2' ? format.virtualBytes : (await stat(file)).size
  if (bytes > place.mostBytes)
    throw new BerthError(
      'exhausted',
      'image_too_large',
      `the disk of the image is larger than ${place.mostBytes} bytes`,
    )
  const command = ['/usr/bin/qemu-img', 'convert', '-f', format.kind, '-O', 'raw', '-S', '4k', '/dev/stdin', diskName]
  await sandboxed(place, { input: file, mostBytes: Math.ceil(bytes / 512) * 512 }, command)
}

async function sandboxed(
  { work: directory, userId, signal }: Place,
  order: { readonly input: string; readonly output?: string; readonly mostBytes: number },
  command: readonly string[],
): Promise<RunResult> {
  try {
    return await runInSandbox({ directory, userId, ...order }, command, {
      signal,
      timeoutMs,
      maxOutputBytes: 65_536,
    })
  } catch (cause) {
    signal.throwIfAborted()
    throw cause instanceof CommandError ? conversionError(cause) : cause
  }
}

function conversionError(cause: CommandError): BerthError {
  if (/No space left|Disk quota/.test(cause.stderr))
    return new BerthError('exhausted', 'storage_full', 'the storage pool of the host is full', { cause })
  // Exit code 153 means that the program exceeded the limit of file sizes (SIGXFSZ).
  if (/File too large|exit code 153/.test(`${cause.stderr} ${cause.message}`))
    return new BerthError('exhausted', 'image_too_large', 'the disk in the image is larger than allowed', {
      cause,
    })
  return new BerthError('invalid', 'image_invalid', 'not a disk image: it is damaged, or cannot be converted', {
    cause,
  })
}

/** Changes the owner of the files from the sandbox's user to root, so that only root can open them. */
async function takeOver(work: string): Promise<void> {
  await chown(work, 0, 0)
  const disk = join(work, diskName)
  const found = await lstat(disk)
  if (!found.isFile() || found.nlink !== 1 || found.size === 0)
    throw new BerthError('invalid', 'image_invalid', 'not a disk image: the conversion produced no disk')
  await chown(disk, 0, 0)
  await chmod(disk, 0o600)
}
