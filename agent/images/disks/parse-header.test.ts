import { expect } from 'chai'
import { BerthError } from '../../../shared/errors.js'
import { parseHeader } from './parse-header.js'

const gib = 1024 ** 3

/** Returns the qcow2 header of a disk of 1 GiB, after `change` has modified it. */
function qcow2(change: (header: Buffer) => void = () => undefined, bytes = 4096): Buffer {
  const header = Buffer.alloc(bytes)
  header.write('514649fb', 0, 'hex')
  header.writeUInt32BE(3, 4)
  header.writeUInt32BE(16, 20)
  header.writeBigUInt64BE(BigInt(gib), 24)
  header.writeUInt32BE(104, 100)
  change(header)
  return header
}

function bootSector(magic = ''): Buffer {
  const sector = Buffer.alloc(4096)
  sector.write(magic, 0, 'hex')
  sector.writeUInt16BE(0x55aa, 510)
  return sector
}

function refusal(bytes: Buffer): string {
  try {
    parseHeader(bytes, 40 * gib)
  } catch (error) {
    if (error instanceof BerthError) return `${error.code}: ${error.message}`
    throw error
  }
  return 'taken'
}

describe('the parser of the first bytes of a disk image or archive', () => {
  it('recognizes qcow2 of versions 2 and 3, and raw disks', () => {
    expect(parseHeader(qcow2(), gib)).to.deep.equal({ kind: 'qcow2', virtualBytes: gib })
    expect(
      parseHeader(
        qcow2((h) => h.writeUInt32BE(2, 4)),
        gib,
      ),
    ).to.include({ kind: 'qcow2' })
    expect(
      parseHeader(
        qcow2((h) => h.writeBigUInt64BE(0b11011n, 72)),
        gib,
      ),
    ).to.include({ kind: 'qcow2' })
    expect(parseHeader(bootSector(), gib)).to.deep.equal({ kind: 'raw' })
  })

  for (const [magic, program] of [
    ['fd377a585a00', 'xz'],
    ['28b52ffd', 'zstd'],
    ['1f8b08', 'gzip'],
    ['425a6839', 'bzip2'],
    ['04224d18', 'lz4'],
  ] as const)
    it(`recognizes files compressed with ${program}`, () => {
      const found = parseHeader(bootSector(magic), gib)
      expect(found.kind === 'compressed' && found.command[0]).to.equal(`/usr/bin/${program}`)
    })

  it('recognizes zip archives, and archives with an exported virtual machine', () => {
    const tar = Buffer.alloc(4096)
    tar.write('ustar', 257)
    for (const [bytes, program] of [
      [bootSector('504b0304'), '/usr/bin/unzip'],
      [tar, '/usr/bin/tar'],
    ] as const) {
      const found = parseHeader(bytes, gib)
      expect(found.kind === 'archive' && found.extract[0]).to.equal(program)
    }
  })

  for (const [name, bytes, said] of [
    ['a qcow2 with a backing file', qcow2((h) => h.writeBigUInt64BE(512n, 8)), 'backing file'],
    ['a qcow2 with only the length of a backing file', qcow2((h) => h.writeUInt32BE(11, 16)), 'backing file'],
    ['a qcow2 with an external data file', qcow2((h) => h.writeBigUInt64BE(0b100n, 72)), 'another file'],
    ['a qcow2 with the name of a data file', qcow2((h) => h.writeUInt32BE(0x44415441, 104)), 'another file'],
    [
      'a qcow2 with the name of a data file after other extensions',
      qcow2((h) => {
        h.writeUInt32BE(0x6803f857, 104)
        h.writeUInt32BE(48, 108)
        h.writeUInt32BE(0x44415441, 160)
      }),
      'another file',
    ],
    ['a qcow2 with unknown features', qcow2((h) => h.writeBigUInt64BE(1n << 40n, 72)), 'unknown'],
    ['an encrypted qcow2', qcow2((h) => h.writeUInt32BE(2, 32)), 'encrypted'],
    ['a qcow2 of version 4', qcow2((h) => h.writeUInt32BE(4, 4)), 'version 4'],
    ['a qcow2 with too large clusters', qcow2((h) => h.writeUInt32BE(63, 20)), 'clusters'],
    ['a qcow2 with a too large header', qcow2((h) => h.writeUInt32BE(2 ** 31, 100)), 'header'],
    ['a truncated qcow2 header', qcow2(undefined, 200).subarray(0, 90), 'cut off'],
    ['a qcow2 disk of 2^60 bytes', qcow2((h) => h.writeBigUInt64BE(1n << 60n, 24)), 'image_too_large'],
    ['a qcow2 disk of 2^64-1 bytes', qcow2((h) => h.writeBigUInt64BE(2n ** 64n - 1n, 24)), 'image_too_large'],
    ['a qcow2 disk of 0 bytes', qcow2((h) => h.writeBigUInt64BE(0n, 24)), '0 bytes'],
    ['VMDK with a boot sector', bootSector('4b444d56'), 'VMDK'],
    ['a VMDK descriptor', bootSector(Buffer.from('# Disk DescriptorFile').toString('hex')), 'VMDK'],
    ['VHDX', bootSector('7668647866696c65'), 'VHDX'],
    ['VHD', bootSector('636f6e6563746978'), 'VHD'],
    ['QED', bootSector('514544000000'), 'QED'],
    ['LUKS', bootSector('4c554b53babe'), 'LUKS'],
    ['an HTML text', Buffer.from('<html>'), 'boot sector'],
    ['an empty file', Buffer.alloc(0), 'boot sector'],
    ['a file of zeros', Buffer.alloc(4096), 'boot sector'],
  ] as const)
    it(`refuses ${name}`, () => expect(refusal(bytes)).to.contain(said))

  it('reads only the given bytes, even if the header contains a larger length', () => {
    const endless = qcow2((h) => {
      h.writeUInt32BE(0x6803f857, 104)
      h.writeUInt32BE(0xffffffff, 108)
    })
    expect(refusal(endless)).to.equal('taken')
  })
})
