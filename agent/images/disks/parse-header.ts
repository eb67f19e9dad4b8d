import { BerthError } from '../../../shared/errors.js'

/** Number of bytes at the beginning of a file that `parseHeader` needs. */
export const headerBytes = 4096

export type DiskFormat =
  | { readonly kind: 'qcow2'; readonly virtualBytes: number }
  | { readonly kind: 'raw' }
  | { readonly kind: 'compressed'; readonly command: readonly string[] }
  /** Archive with a disk. The command `list` prints the names of its files, and `extract` prints the disk. */
  | { readonly kind: 'archive'; readonly list?: readonly string[]; readonly extract: readonly string[] }

/** First bytes of compressed files in hex, and the program that unpacks them. */
const compressions: readonly (readonly [magic: string, command: readonly string[]])[] = [
  ['fd377a585a00', ['/usr/bin/xz', '--decompress', '--stdout']],
  ['28b52ffd', ['/usr/bin/zstd', '--decompress', '--stdout', '--quiet']],
  ['1f8b', ['/usr/bin/gzip', '--decompress', '--stdout']],
  ['425a68', ['/usr/bin/bzip2', '--decompress', '--stdout']],
  ['04224d18', ['/usr/bin/lz4', '--decompress', '--stdout']],
]

/** Formats that are refused, because they can refer to other files or are not needed. */
const others: readonly (readonly [magic: string, name: string])[] = [
  ['4b444d56', 'VMDK'],
  ['23204469736b2044', 'VMDK'],
  ['7668647866696c65', 'VHDX'],
  ['636f6e6563746978', 'VHD'],
  ['514544', 'QED'],
  ['4c554b53', 'LUKS'],
  ['4d5a', 'a program'],
]

/**
 * Recognizes an untrusted file by its first bytes, before any program that parses disk formats gets it. Refuses a qcow2
 * header (docs/interop/qcow2.txt of QEMU) that names another file, such as a backing file or an external data file. The
 * host would read that file as part of the image.
 * @throws {BerthError} `image_invalid`
 */
export function parseHeader(bytes: Buffer, mostBytes: number): DiskFormat {
  const begin = bytes.toString('hex', 0, 16)
  if (begin.startsWith('514649fb')) return parseQcow2(bytes, mostBytes)
  const packed = compressions.find(([magic]) => begin.startsWith(magic))
  if (packed) return { kind: 'compressed', command: packed[1] }
  if (begin.startsWith(zipMagic)) return zip
  if (bytes.toString('latin1', tarMagicAt, tarMagicAt + 5) === 'ustar') return tar
  const other = others.find(([magic]) => begin.startsWith(magic))
  if (other) throw invalid(`the format ${other[1]} is not supported: convert the disk to qcow2 or raw`)
  if (bytes.length < 512 || bytes.readUInt16BE(510) !== 0x55aa)
    throw invalid('it is neither qcow2 nor a raw disk with a boot sector')
  return { kind: 'raw' }
}

const zipMagic = '504b0304'
const tarMagicAt = 257

const zip: DiskFormat = {
  kind: 'archive',
  list: ['/usr/bin/unzip', '-Z1', '/dev/stdin'],
  extract: ['/usr/bin/unzip', '-p', '/dev/stdin'],
}

/** Format of a tar archive. LXD and Incus export a virtual machine's image as an archive with `rootfs.img`. */
const tar: DiskFormat = {
  kind: 'archive',
  extract: [
    '/usr/bin/tar',
    '--extract',
    '--to-stdout',
    '--file=-',
    '--occurrence=1',
    '--wildcards',
    '--no-anchored',
    'rootfs.img',
  ],
}

/**
 * Incompatible features that are accepted, because they do not refer to other files: dirty, corrupt, compression type,
 * and extended L2 entries.
 */
const harmlessFeatures = 0b11011n
const dataFileFeature = 0b100n
const dataFileExtension = 0x44415441

function parseQcow2(bytes: Buffer, mostBytes: number): DiskFormat {
  if (bytes.length < 104) throw invalid('the qcow2 header is cut off')
  const version = bytes.readUInt32BE(4)
  if (version !== 2 && version !== 3) throw invalid(`qcow2 version ${version} is not supported`)
  if (bytes.readBigUInt64BE(8) !== 0n || bytes.readUInt32BE(16) !== 0) throw invalid('it depends on a backing file')
  if (bytes.readUInt32BE(32) !== 0) throw invalid('it is encrypted')
  const clusterBits = bytes.readUInt32BE(20)
  if (clusterBits < 9 || clusterBits > 21) throw invalid(`its clusters of 2^${clusterBits} bytes are not supported`)
  if (version === 3) checkVersion3(bytes)
  return { kind: 'qcow2', virtualBytes: checkSize(bytes.readBigUInt64BE(24), mostBytes) }
}

function checkVersion3(bytes: Buffer): void {
  const features = bytes.readBigUInt64BE(72)
  if (features & dataFileFeature) throw invalid('its data is in another file')
  if (features & ~harmlessFeatures) throw invalid('it has unknown features')
  const length = bytes.readUInt32BE(100)
  if (length < 104 || length > bytes.length) throw invalid(`its header has an invalid length of ${length} bytes`)
  checkExtensions(bytes, length)
}

/** Checks header extensions. Each has a type, a length and data, padded to 8 bytes. Type 0 ends the list. */
function checkExtensions(bytes: Buffer, from: number): void {
  for (let at = from; at + 8 <= bytes.length;) {
    const type = bytes.readUInt32BE(at)
    if (type === 0) return
    if (type === dataFileExtension) throw invalid('its data is in another file')
    at += 8 + Math.ceil(bytes.readUInt32BE(at + 4) / 8) * 8
  }
}

function checkSize(size: bigint, mostBytes: number): number {
  if (size === 0n) throw invalid('its disk size is 0 bytes')
  if (size > BigInt(mostBytes))
    throw new BerthError('exhausted', 'image_too_large', `the disk in the image is larger than ${mostBytes} bytes`)
  return Number(size)
}

function invalid(why: string): BerthError {
  return new BerthError('invalid', 'image_invalid', `not a usable disk image: ${why}`)
}
