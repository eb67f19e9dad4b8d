import { Header } from 'tar'
import { gzipSync } from 'node:zlib'
import { run } from '../host/process/process.js'

export const compressions = ['zstd', 'gzip'] as const
export type Compression = (typeof compressions)[number]

const blockBytes = 512

/** Returns a file as an entry of a tar archive that has no end yet, so that further entries can follow. */
export function tarEntry(path: string, content: Buffer, mtime: Date): Buffer {
  const header = new Header({ path, mode: 0o644, uid: 0, gid: 0, size: content.length, mtime, type: 'File' })
  header.encode()
  return Buffer.concat([header.block!, content, Buffer.alloc(-content.length & (blockBytes - 1))])
}

/** Compresses the head of an archive. Further compressed data can follow, because gzip and zstd can be concatenated. */
export async function compressHead(head: Buffer, compression: Compression): Promise<Buffer> {
  if (compression === 'gzip') return gzipSync(head)
  const maxOutputBytes = 2 * head.length + 1024
  const { stdout } = await run('zstd', ['-q', '-c'], { stdin: head, encoding: 'latin1', maxOutputBytes })
  return Buffer.from(stdout, 'latin1')
}
