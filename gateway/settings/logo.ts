import { crc32, inflateSync } from 'node:zlib'
import { invalidField } from '../../shared/errors.js'

export const maxLogoBytes = 128 * 1024
/** Maximum width and height of a logo in pixels. */
export const maxLogoSide = 1024

/** A checked picture in the format PNG. */
export interface Logo {
  readonly bytes: Buffer
  readonly width: number
  readonly height: number
}

interface Chunk {
  readonly type: string
  readonly content: Buffer
  /** The complete chunk with its length, type and checksum. */
  readonly whole: Buffer
}

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
/** Bytes of a chunk in addition to its content: length, type and checksum. */
const frameBytes = 12
/** Chunks that a logo keeps. Text, camera data, colour profiles and animations are removed. */
const keptTypes: readonly string[] = ['IHDR', 'PLTE', 'tRNS', 'gAMA', 'sRGB', 'IDAT', 'IEND']

/**
 * Checks a picture, and removes everything that does not belong to its pixels. SVG is not accepted, because it can
 * contain scripts.
 * @param base64 the file
 * @throws {BerthError} `invalid_field`
 * Source: https://www.w3.org/TR/png-3/
 */
export function parseLogo(base64: string): Logo {
  const file = Buffer.from(base64, 'base64')
  if (file.toString('base64') !== base64) throw refused('must be base64')
  if (file.length > maxLogoBytes) throw refused(`must have at most ${maxLogoBytes / 1024} KiB`)
  const kept = readChunks(file).filter(({ type }) => keptTypes.includes(type))
  const size = readSize(kept)
  checkPixels(kept)
  return { bytes: Buffer.concat([signature, ...kept.map(({ whole }) => whole)]), ...size }
}

function readChunks(file: Buffer): Chunk[] {
  if (!file.subarray(0, signature.length).equals(signature)) throw refused('must be a PNG file')
  const chunks: Chunk[] = []
  for (let at = signature.length; at < file.length; at += chunks.at(-1)!.whole.length) chunks.push(readChunk(file, at))
  if (chunks[0]?.type !== 'IHDR' || chunks.at(-1)?.type !== 'IEND') throw damaged()
  // A second IHDR or IEND is refused, because other programs could read a size that is not checked here.
  if (chunks.filter(({ type }) => ['IHDR', 'IEND'].includes(type)).length > 2) throw damaged()
  return chunks
}

function readChunk(file: Buffer, at: number): Chunk {
  if (file.length - at < frameBytes) throw damaged()
  const length = file.readUInt32BE(at)
  const end = at + frameBytes + length
  if (end > file.length) throw damaged()
  if (crc32(file.subarray(at + 4, end - 4)) !== file.readUInt32BE(end - 4)) throw damaged()
  return {
    type: file.toString('latin1', at + 4, at + 8),
    content: file.subarray(at + 8, end - 4),
    whole: file.subarray(at, end),
  }
}

function readSize([header]: readonly Chunk[]): Pick<Logo, 'width' | 'height'> {
  if (header?.content.length !== 13) throw damaged()
  const [width, height] = [header.content.readUInt32BE(0), header.content.readUInt32BE(4)]
  if (Math.min(width, height) < 1 || Math.max(width, height) > maxLogoSide)
    throw refused(`must have at most ${maxLogoSide} x ${maxLogoSide} pixels`)
  return { width, height }
}

/** Checks that the pixel data can be decompressed, and is not larger than that of the largest permitted logo. */
function checkPixels(chunks: readonly Chunk[]): void {
  const compressed = Buffer.concat(chunks.filter(({ type }) => type === 'IDAT').map(({ content }) => content))
  // A pixel has at most 8 bytes. Each line of each pass of an interlaced picture begins with one more byte.
  const maxOutputLength = maxLogoSide * (maxLogoSide * 8 + 8)
  try {
    if (inflateSync(compressed, { maxOutputLength }).length > 0) return
  } catch {
    // The error below names the reason.
  }
  throw damaged()
}

function damaged() {
  return refused('the PNG file is damaged')
}

function refused(why: string) {
  return invalidField('logo', `logo: ${why}`)
}
