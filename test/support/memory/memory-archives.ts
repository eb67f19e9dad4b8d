import { Header } from 'tar'
import { constants, gunzipSync } from 'node:zlib'
import type { ArchiveReader } from '../../../agent/imports/contract.js'
import { parseManifest } from '../../../agent/exports/manifest.js'
import { manifestName } from '../../../agent/images/sources/container-export.js'
import { BerthError } from '../../../shared/errors.js'

/** Reads archives that are compressed with gzip, and unpacks nothing. */
export class MemoryArchives implements ArchiveReader {
  /** Bytes of archives that were received so far, by the path of the volume. */
  readonly received = new Map<string, number>()

  async readManifest(head: Buffer): Promise<ReturnType<typeof parseManifest> | undefined> {
    const tar = unzip(head, { finishFlush: constants.Z_SYNC_FLUSH })
    if (tar.length < 512) return undefined
    const header = new Header(tar)
    if (header.path !== manifestName) return undefined
    return parseManifest(tar.toString('utf8', 512, 512 + header.size!))
  }

  async unpack(parts: AsyncIterable<Buffer>, target: string): Promise<void> {
    const all: Buffer[] = []
    this.received.set(target, 0)
    for await (const part of parts) {
      all.push(part)
      this.received.set(target, this.received.get(target)! + part.length)
    }
    unzip(Buffer.concat(all))
  }
}

function unzip(bytes: Buffer, options = {}): Buffer {
  try {
    return gunzipSync(bytes, options)
  } catch (cause) {
    throw new BerthError('invalid', 'image_invalid', 'the archive cannot be unpacked: it is damaged', { cause })
  }
}
