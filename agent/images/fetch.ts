import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import type { CatalogEntry, ImageSource } from './catalog.js'
import type { BuildContext } from './publish.js'
import { discardDownload, download, type DownloadParts } from './sources/download.js'
import type { DownloadProgress } from './sources/transfer.js'
import { describeTransfer } from './sources/describe-transfer.js'
import { findUploaded, takeUploaded } from './sources/uploaded.js'
import { findStreamItem } from './sources/simplestreams.js'

export interface FetchParts extends DownloadParts {
  /** Directory of downloaded files, which are untrusted and temporary. */
  readonly directory: string
  /** Directory to which administrators copy image files. Undefined: uploads are disabled. */
  readonly uploads?: string
  readonly server: string
  readonly maxBytes: number
  /** Returns the free bytes of the pool in which images are unpacked. */
  readonly readFreeBytes: () => Promise<number>
}

type RemoteSource = Exclude<ImageSource, { kind: 'built' }>

interface RemoteFile {
  readonly url: string
  readonly sha256: string
  /** Size of the file in bytes. 0: unknown. */
  readonly sizeBytes: number
}

/** Maximum size in bytes of an image server's list. The list of images.linuxcontainers.org has about 5 MB. */
const maxListBytes = 64 * 1024 ** 2
/** Assumed ratio of an unpacked root filesystem's size to the size of its xz archive. */
const unpackedRatio = 5

/** Fractions of the total progress at the beginning and at the end of the download. Unpacking takes the rest. */
const downloadShare = { from: 0.02, to: 0.75 } as const

/**
 * Downloads an image's file and checks it. Continues an earlier attempt.
 * @returns the path of the file, which the caller must remove
 * @throws {BerthError} like `download` and `findStreamItem`; `storage_full` if the unpacked content would not fit
 */
export async function fetchImage(
  { id, arch }: Pick<CatalogEntry, 'id' | 'arch'>,
  source: RemoteSource,
  parts: FetchParts,
  { report, signal }: BuildContext,
): Promise<string> {
  report(0, 'asking the server of images')
  const wanted = await find({ id, arch }, source, parts, signal)
  await checkRoom(wanted, parts)
  const file = fileOf(parts, id)
  if (parts.uploads !== undefined && findUploaded(wanted.url) !== undefined) {
    await takeUploaded(parts.uploads, { ...wanted, file, maxBytes: parts.maxBytes }, signal)
    return file
  }
  const { from, to } = downloadShare
  const told = (progress: DownloadProgress): void => {
    const { receivedBytes, totalBytes } = progress
    const share = totalBytes > 0 ? receivedBytes / totalBytes : 0
    report(from + share * (to - from), describeTransfer(progress), progress)
  }
  await download({ ...wanted, file, maxBytes: parts.maxBytes }, parts, told, signal)
  return file
}

/** Removes the files of an unfinished download. */
export async function discardFetched(parts: Pick<FetchParts, 'directory'>, id: string): Promise<void> {
  for (const file of [fileOf(parts, id), listOf(parts, id)]) await discardDownload(file)
}

/** Removes the files of downloads that will not be continued. */
export async function sweepFetched(
  parts: Pick<FetchParts, 'directory'>,
  isWanted: (id: string) => boolean,
): Promise<void> {
  for (const name of await readdir(parts.directory))
    if (!isWanted(name.replace(/(\.list)?(\.json)?$/, '')))
      await rm(join(parts.directory, name), { recursive: true, force: true })
}

async function find(
  { id, arch }: Pick<CatalogEntry, 'id' | 'arch'>,
  source: RemoteSource,
  parts: FetchParts,
  signal: AbortSignal,
): Promise<RemoteFile> {
  if (source.kind === 'url') return { url: source.url, sha256: source.sha256, sizeBytes: 0 }
  const base = parts.server.replace(/\/+$/, '')
  const order = { url: `${base}/streams/v1/images.json`, sha256: '', maxBytes: maxListBytes }
  const file = listOf(parts, id)
  await discardDownload(file) // a resumed download could combine two versions of the list
  try {
    await download({ ...order, file }, parts, () => undefined, signal)
    return findStreamItem(await readFile(file, 'utf8'), base, { ...source, arch })
  } finally {
    await discardDownload(file)
  }
}

async function checkRoom({ sizeBytes }: RemoteFile, parts: FetchParts): Promise<void> {
  const neededBytes = sizeBytes * (1 + unpackedRatio)
  if (neededBytes > (await parts.readFreeBytes()))
    throw new BerthError(
      'exhausted',
      'storage_full',
      `the storage pool of the host does not have enough space for the unpacked image of ${sizeBytes} bytes`,
    )
}

function fileOf({ directory }: Pick<FetchParts, 'directory'>, id: string): string {
  return join(directory, id)
}

function listOf({ directory }: Pick<FetchParts, 'directory'>, id: string): string {
  return join(directory, `${id}.list`)
}
