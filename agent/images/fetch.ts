import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import type { CatalogEntry, ImageSource } from './catalog.js'
import type { BuildContext } from './publish.js'
import { discardDownload, download, type DownloadParts, type DownloadProgress } from './sources/download.js'
import { describeTransfer } from './sources/describe-transfer.js'
import { findUploaded, takeUploaded } from './sources/uploaded.js'
import { findStreamItem } from './sources/simplestreams.js'

export interface FetchParts extends DownloadParts {
  /** Where files go while they come; anybody's but nobody's for long. */
  readonly directory: string
  /** Where administrators copy files to; absent: nowhere. */
  readonly uploads?: string
  /** URL of the server of images. */
  readonly server: string
  /** The largest file that is taken. */
  readonly maxBytes: number
  /** Of the place that images are unpacked to. */
  readonly readFreeBytes: () => Promise<number>
}

type RemoteSource = Exclude<ImageSource, { kind: 'built' }>

interface RemoteFile {
  readonly url: string
  readonly sha256: string
  /** 0: not known. */
  readonly sizeBytes: number
}

/** Of a server of images; that of images.linuxcontainers.org has about 5 MB. */
const maxListBytes = 64 * 1024 ** 2
/** What xz makes of a root file system is a fifth of it. */
const unpackedRatio = 5

/** Shares of the whole that have passed before the download and after it; the rest is unpacking. */
const downloadShare = { from: 0.02, to: 0.75 } as const

/**
 * Downloads an image's file and checks it; goes on with what an earlier attempt left.
 * @returns its path; the caller removes it
 * @throws {BerthError} as `download` and `findStreamItem`; `storage_full` where what is in it will not fit
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

/** What is left of a download, and what is remembered of it. */
export async function discardFetched(parts: Pick<FetchParts, 'directory'>, id: string): Promise<void> {
  for (const file of [fileOf(parts, id), listOf(parts, id)]) await discardDownload(file)
}

/** Removes what no image's download will go on with. */
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
  await discardDownload(file) // one that is gone on with could be of two versions
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
    throw new BerthError('exhausted', 'storage_full', `no room for an image of ${sizeBytes} bytes, unpacked`)
}

function fileOf({ directory }: Pick<FetchParts, 'directory'>, id: string): string {
  return join(directory, id)
}

function listOf({ directory }: Pick<FetchParts, 'directory'>, id: string): string {
  return join(directory, `${id}.list`)
}
