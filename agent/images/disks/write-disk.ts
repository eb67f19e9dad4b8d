import { open, readFile, truncate, writeFile, type FileHandle } from 'node:fs/promises'
import { BerthError } from '../../../shared/errors.js'
import { run } from '../../host/process/process.js'

export interface DiskParts {
  readonly disk: string
  readonly tree: string
  /** Path of the file with GRUB's core image, which gets its own partition. */
  readonly core: string
  /** Path of a file with GRUB's first sector. */
  readonly boot: string
  readonly rootUuid: string
}

const sectorBytes = 512
const mib = 1024 ** 2
/** Size of the disk in MiB. A guest's own disk is larger, and the partition grows at the guest's first boot. */
const diskMib = 1024
/** First sectors of the partitions: GRUB's core begins at 1 MiB, and the root file system at 2 MiB. */
const partitions = { core: 2048, root: 4096 } as const

/**
 * Writes a disk with a GUID partition table, GRUB for a BIOS, and the tree as its last partition, which growpart can
 * enlarge. Needs neither a loop device nor a mount, because mke2fs can write at an offset.
 * @throws {CommandError}
 */
export async function writeDisk(parts: DiskParts): Promise<void> {
  const { disk } = parts
  await writeFile(disk, '', { mode: 0o600 })
  await truncate(disk, diskMib * mib)
  await run('sfdisk', ['--quiet', disk], { stdin: planPartitions() })
  await makeRoot(parts)
  await installGrub(parts)
}

function planPartitions(): string {
  const biosBoot = '21686148-6449-6E6F-744E-656564454649'
  const linuxRoot = '4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709'
  const { core, root } = partitions
  return [
    'label: gpt',
    'unit: sectors',
    `14: start=${core}, size=${root - core}, type=${biosBoot}`,
    `1: start=${root}, type=${linuxRoot}`,
    '',
  ].join('\n')
}

async function makeRoot({ disk, tree, rootUuid }: DiskParts): Promise<void> {
  const offset = partitions.root * sectorBytes
  const tableMib = 1 // room for the second partition table at the end of the disk
  const kib = (diskMib - tableMib) * 1024 - offset / 1024
  const extended = `offset=${offset},assume_storage_prezeroed=1`
  const args = ['-q', '-t', 'ext4', '-U', rootUuid, '-L', 'root', '-d', tree, '-E', extended, '-m', '1']
  await run('mke2fs', [...args, disk, `${kib}k`], { timeoutMs: 10 * 60_000 })
}

/**
 * Installs GRUB like grub-install, which works only on block devices, not on files. The disk's first sector points to
 * the core's first sector, which points to the rest of the core. The first pointer is at the offset of kernel_sector in
 * boot.S, the second pointer at the offset of the block list in diskboot.S.
 */
async function installGrub({ disk, core, boot }: DiskParts): Promise<void> {
  const [sector, image] = [await readFile(boot), await readFile(core)]
  if (image.length > (partitions.root - partitions.core) * sectorBytes)
    throw new BerthError(
      'internal',
      'image_build_failed',
      'the boot loader (core.img of GRUB) is too large for its partition',
    )
  sector.writeBigUInt64LE(BigInt(partitions.core), 0x5c)
  sector.writeUInt16BE(0x9090, 0x66) // makes GRUB use the disk from which the BIOS booted
  image.writeBigUInt64LE(BigInt(partitions.core + 1), 0x1f4)
  const file: FileHandle = await open(disk, 'r+')
  try {
    await file.write(sector, 0, 440, 0) // the rest of the sector belongs to the partition table
    await file.write(image, 0, image.length, partitions.core * sectorBytes)
    await file.sync()
  } finally {
    await file.close()
  }
}
