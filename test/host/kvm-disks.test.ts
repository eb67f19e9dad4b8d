import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { pino } from 'pino'
import { installDisk } from '../../agent/images/disks/install-disk.js'
import { openPool, type Pool } from '../../agent/storage/pool.js'
import { Trash } from '../../agent/storage/trash.js'
import { scratchDirectory, testStorage } from '../support/scratch.js'
import { sh } from '../support/sh.js'

const hostIdBase = 4_000_000_000
const mib = 1024 ** 2
const mostBytes = 256 * mib
const secret = 'only root may read this'

/** The real qemu-img converts untrusted disks. */
describe('disks that virtual machines import', function () {
  const scratch = scratchDirectory('btest-disks')
  const files = join(scratch.path, 'files')
  const raw = join(files, 'plain.raw')
  let pool: Pool

  before(async () => {
    pool = await openPool(testStorage(scratch.path, 2))
    mkdirSync(files, { mode: 0o700 })
    writeFileSync(join(files, 'secret'), secret.padEnd(mib), { mode: 0o600 })
    makeRaw()
  })
  after(() => scratch.wipe())

  /** Creates a disk of 64 MiB with a boot sector, and with some bytes in the middle. */
  function makeRaw(): void {
    const sector = Buffer.alloc(512)
    sector.writeUInt16BE(0x55aa, 510)
    writeFileSync(raw, sector)
    truncateSync(raw, 64 * mib)
    writeSync(openSync(raw, 'r+'), Buffer.from('somewhere'), 0, 9, 32 * mib)
  }

  const qemuImg = (...args: string[]): string => sh('qemu-img', ...args)
  const at = (name: string): string => join(files, name)

  async function install(archive: string, id: string): Promise<string> {
    const parts = {
      pool,
      trash: new Trash(pool, pino({ level: 'silent' })),
      hostIdBase,
      readBound: async () => mostBytes,
    }
    const making = { report: () => undefined, signal: new AbortController().signal }
    return installDisk(parts, { id, archive, os: 'linux' }, making).then(
      () => 'done',
      (error: { code?: string; message: string }) => error.code ?? error.message,
    )
  }
  const digest = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex')

  it('keep their content when they are converted from qcow2, raw, compressed files and archives', async () => {
    qemuImg('convert', '-O', 'qcow2', raw, at('plain.qcow2'))
    qemuImg('convert', '-c', '-O', 'qcow2', raw, at('small.qcow2'))
    for (const [program, ending] of [
      ['xz', 'xz'],
      ['gzip', 'gz'],
      ['bzip2', 'bz2'],
    ] as const)
      execFileSync('sh', ['-c', `${program} -c "$1" > "$1.${ending}"`, 'sh', raw])
    execFileSync('zstd', ['-q', at('plain.qcow2'), '-o', at('plain.qcow2.zst')])
    execFileSync('lz4', ['-q', raw, at('plain.raw.lz4')])
    execFileSync('zip', ['-q', '-j', at('plain.zip'), at('plain.qcow2')])
    // Exports of virtual machines by LXD and Incus contain these files.
    copyFileSync(at('plain.qcow2'), at('rootfs.img'))
    writeFileSync(at('metadata.yaml'), 'architecture: x86_64\n')
    sh('tar', '--gzip', '-cf', at('export.tar.gz'), '-C', files, 'metadata.yaml', 'rootfs.img')
    sh('tar', '-cf', at('export.tar'), '-C', files, './metadata.yaml', './rootfs.img')
    const archives = ['plain.raw.lz4', 'plain.zip', 'export.tar.gz', 'export.tar']
    const taken = ['plain.raw', 'plain.qcow2', 'small.qcow2', 'plain.qcow2.zst', ...archives]
    for (const [index, name] of [...taken, 'plain.raw.xz', 'plain.raw.gz', 'plain.raw.bz2'].entries()) {
      expect(await install(at(name), `taken-${index}`), name).to.equal('done')
      const disk = join(pool.images, `taken-${index}`, 'disk.raw')
      expect(digest(disk), name).to.equal(digest(raw))
      const { mode, uid, blocks } = lstatSync(disk)
      expect([mode & 0o777, uid, blocks * 512 < 2 * mib], name).to.deep.equal([0o600, 0, true])
      expect(sh('lsattr', disk), name).to.match(/^\S*C/)
      expect(readdirSync(join(pool.images, `taken-${index}`))).to.deep.equal(['disk.raw', 'system.json'])
    }
  })

  it('are rejected without a trace if they refer to other files or are malformed', async () => {
    qemuImg('create', '-q', '-f', 'qcow2', '-F', 'raw', '-b', at('secret'), at('backing.qcow2'))
    qemuImg('create', '-q', '-f', 'qcow2', '-o', `data_file=${at('data')},data_file_raw=on`, at('data.qcow2'), '1M')
    qemuImg('create', '-q', '-f', 'qcow2', at('cyclic.qcow2'), '1M')
    qemuImg('rebase', '-u', '-f', 'qcow2', '-F', 'qcow2', '-b', at('cyclic.qcow2'), at('cyclic.qcow2'))
    qemuImg('create', '-q', '-f', 'qcow2', '-o', 'cluster_size=2M', at('huge.qcow2'), '1T')
    qemuImg('create', '-q', '-f', 'vmdk', at('other.vmdk'), '1M')
    qemuImg('create', '-q', '-f', 'vdi', at('other.vdi'), '1M')
    execFileSync('zip', ['-q', '-j', at('two.zip'), raw, at('secret')])
    sh('tar', '-cf', at('no-disk.tar'), '-C', files, 'secret')
    symlinkSync(at('secret'), at('link'))
    mkdirSync(at('linked'))
    symlinkSync(at('secret'), at('linked/rootfs.img'))
    sh('tar', '-cf', at('link.tar'), '-C', at('linked'), 'rootfs.img')
    execFileSync('zip', ['-q', '-y', '-j', at('link.zip'), at('link')])
    writeFileSync(at('text'), '<html>')
    writeFileSync(at('vmdk-text'), `# Disk DescriptorFile\nRW 2048 FLAT "${at('secret')}" 0\n`.padEnd(4096))
    writeFileSync(at('json'), `json:{"driver":"raw","file":"${at('secret')}"}`.padEnd(4096))
    execFileSync('sh', ['-c', 'head -c 1500M /dev/zero | gzip -1 > "$1"', 'sh', at('bomb.gz')])
    execFileSync('sh', ['-c', 'gzip -c "$1" | gzip -c > "$2"', 'sh', raw, at('twice.gz.gz')])
    copyFileSync(at('plain.qcow2'), at('broken.qcow2'))
    const table = openSync(at('broken.qcow2'), 'r+')
    writeSync(table, Buffer.alloc(65_536, 0xff), 0, 65_536, 65_536)
    for (const [name, answer] of [
      ['backing.qcow2', 'image_invalid'],
      ['data.qcow2', 'image_invalid'],
      ['cyclic.qcow2', 'image_invalid'],
      ['huge.qcow2', 'image_too_large'],
      ['other.vmdk', 'image_invalid'],
      ['other.vdi', 'image_invalid'],
      ['text', 'image_invalid'],
      ['vmdk-text', 'image_invalid'],
      ['json', 'image_invalid'],
      ['bomb.gz', 'image_too_large'],
      ['twice.gz.gz', 'image_invalid'],
      ['two.zip', 'image_invalid'],
      ['no-disk.tar', 'image_invalid'],
      ['link.tar', 'image_invalid'],
      ['link.zip', 'image_invalid'],
    ] as const)
      expect(await install(at(name), `refused-${name.replaceAll(/\W/g, '-')}`), name).to.equal(answer)
    expect(['image_invalid', 'done']).to.include(await install(at('broken.qcow2'), 'broken'))
    expect(readdirSync(pool.images).filter((name) => name.includes('refused'))).to.deep.equal([])
    expect(readFileSync(at('secret'), 'utf8').trim()).to.equal(secret)
    expect(lstatSync(at('secret')).mode & 0o777).to.equal(0o600)
  })
})
