import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { setLimit } from '../../agent/host/disk/btrfs-ioctl.js'
import { unpackArchive } from '../../agent/images/sources/unpack.js'
import { openPool, type Pool } from '../../agent/storage/pool.js'
import { scratchDirectory, testStorage } from '../support/scratch.js'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'

const generator = fileURLToPath(new URL('../support/attacks/hostile-archives.py', import.meta.url))
const never = new AbortController().signal
const mib = 1024 ** 2
const hostIdBase = 4_000_000_000

describe('archives of root filesystems', function () {
  const scratch = scratchDirectory('btest-archives')
  const canary = `${scratch.path}/outside/btest-canary`
  const archives = `${scratch.path}/archives`
  let pool: Pool
  let next = 0

  before(async () => {
    pool = await openPool(testStorage(scratch.path, 2))
    mkdirSync(`${scratch.path}/outside`)
    writeFileSync(canary, 'untouched')
    execFileSync('python3', [generator, archives, canary])
  })
  after(() => scratch.wipe())

  /** Creates an empty subvolume with this size limit. */
  async function target(bytes: number): Promise<string> {
    const path = join(pool.images, `.unpacked-${next++}`)
    sh('btrfs', '-q', 'subvolume', 'create', path)
    await setLimit(path, bytes)
    return path
  }
  const unpack = (archive: string, path: string): Promise<string> =>
    unpackArchive({ archive, target: path, hostIdBase }, never).then(
      () => 'done',
      (error: { code?: string; message: string }) => error.code ?? error.message,
    )
  /** Describes everything outside of the unpacked tree that an archive could have changed. */
  const outside = (): unknown => ({
    canary: readFileSync(canary, 'utf8'),
    beside: readdirSync(`${scratch.path}/outside`),
    mode: statSync(`${scratch.path}/outside`).mode,
    links: statSync(canary).nlink,
    planted: ['/', '/etc', '/dev', '/tmp', '/mnt', '/var/tmp', '/proc/self/cwd'].filter(
      (place) => existsSync(`${place}/${basename(canary)}`) || existsSync(`${place}/${basename(canary)}.d`),
    ),
    modes: ['/etc', '/dev', '/sys'].map((place) => statSync(place).mode),
  })

  it('cannot change anything outside the target directory or exceed its size limit', async () => {
    const names = readdirSync(archives)
    expect(names).to.have.length.of.at.least(60)
    const before = outside()
    const answers = new Map<string, string>()
    for (const name of names) {
      const path = await target(16 * mib)
      answers.set(name, await unpack(join(archives, name), path))
      expect(outside(), name).to.deep.equal(before)
      expect(lstatSync(path).isDirectory(), name).to.equal(true)
      // The node 0:0 is not a device, so it is allowed. Any user may create it. overlayfs marks deleted files by it.
      const devices = sh('find', path, '(', '-type', 'b', '-o', '-type', 'c', ')', '!', '-name', 'whiteout')
      expect(devices, name).to.equal('')
    }
    for (const [name, answer] of answers) expect(['done', 'image_invalid', 'image_too_large'], name).to.include(answer)
    const answersOf = (pattern: RegExp): Set<string> =>
      new Set([...answers].filter(([name]) => pattern.test(name)).map(([, answer]) => answer))
    expect([...answersOf(/^bomb-of-(zeros|files)/)]).to.deep.equal(['image_too_large'])
    expect([...answersOf(/^bomb-of-memory/)]).to.deep.equal(['image_invalid'])
    expect([...answersOf(/^(cut|garbage|text|elf|zip$|zip-in-zip$)/)]).to.deep.equal(['image_invalid'])
    expect([...answersOf(/^device-(null|mem|loop)$/)]).to.deep.equal(['image_invalid'])
  })

  it('are unpacked with owners, modes, capabilities and links, but without /dev', async () => {
    const source = `${scratch.path}/source`
    for (const directory of ['bin', 'dev', 'etc', 'home/user']) mkdirSync(join(source, directory), { recursive: true })
    writeFileSync(join(source, 'bin/su'), 'su')
    writeFileSync(join(source, 'bin/ping'), 'ping')
    writeFileSync(join(source, 'home/user/file'), 'theirs')
    sh('chmod', '4755', join(source, 'bin/su'))
    sh('setcap', 'cap_net_raw+ep', join(source, 'bin/ping'))
    sh('chown', '-R', '1000:1001', join(source, 'home/user'))
    sh('ln', '-s', '/etc/passwd', join(source, 'etc/link'))
    sh('mknod', join(source, 'dev/null'), 'c', '1', '3')
    for (const [option, suffix] of [
      ['--zstd', 'zst'],
      ['--xz', 'xz'],
      ['--gzip', 'gz'],
      ['--bzip2', 'bz2'],
      ['--use-compress-program=lz4', 'lz4'],
      ['', 'tar'],
    ] as const) {
      const archive = `${scratch.path}/right.${suffix}`
      sh(
        'tar',
        '--create',
        '--xattrs',
        '--xattrs-include=*',
        `--file=${archive}`,
        ...(option ? [option] : []),
        '-C',
        source,
        '.',
      )
      const path = await target(64 * mib)
      expect(await unpack(archive, path)).to.equal('done')
      expect(lstatSync(join(path, 'bin/su')).mode & 0o7777).to.equal(0o4755)
      expect(lstatSync(join(path, 'bin/su')).uid).to.equal(0)
      expect(lstatSync(join(path, 'home/user/file'))).to.include({ uid: 1000, gid: 1001 })
      expect(sh('getcap', join(path, 'bin/ping'))).to.match(/cap_net_raw=ep/)
      expect(sh('readlink', join(path, 'etc/link'))).to.equal('/etc/passwd\n')
      expect(readdirSync(join(path, 'dev'))).to.deep.equal([])
    }
  })

  describe('in other formats', () => {
    /** Creates a root filesystem with attributes that archive formats may lose. */
    function fill(root: string): void {
      for (const directory of ['bin', 'dev', 'etc', 'home/user', 'rootfs-of-others'])
        mkdirSync(join(root, directory), { recursive: true })
      writeFileSync(join(root, 'bin/su'), 'su')
      writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\n')
      writeFileSync(join(root, 'home/user/file'), 'theirs')
      sh('chmod', '4755', join(root, 'bin/su'))
      sh('chown', '-R', '1000:1001', join(root, 'home/user'))
      sh('ln', '-s', '/etc/passwd', join(root, 'etc/link'))
      sh('mknod', join(root, 'dev/null'), 'c', '1', '3')
    }
    function expectFilled(root: string): void {
      expect(readdirSync(root).sort()).to.deep.equal(['bin', 'dev', 'etc', 'home', 'rootfs-of-others'])
      expect(lstatSync(join(root, 'bin/su')).mode & 0o7777).to.equal(0o4755)
      expect(lstatSync(join(root, 'home/user/file'))).to.include({ uid: 1000, gid: 1001 })
      expect(sh('readlink', join(root, 'etc/link'))).to.equal('/etc/passwd\n')
      expect(readdirSync(join(root, 'dev'))).to.deep.equal([])
      expect(lstatSync(root)).to.include({ uid: 0, gid: 0 })
    }
    const zip = (directory: string, archive: string, ...what: string[]): void =>
      void execFileSync('zip', ['-q', '-r', '-y', archive, ...what], { cwd: directory })
    const source = `${scratch.path}/formats`
    const exported = `${scratch.path}/exported`

    before(() => {
      fill(source)
      fill(join(exported, 'rootfs'))
      writeFileSync(join(exported, 'metadata.yaml'), 'architecture: x86_64\nproperties: {os: debian}\n')
      mkdirSync(join(exported, 'templates'))
      writeFileSync(join(exported, 'templates/hostname.tpl'), '{{ container.name }}')
    })

    for (const [what, make] of [
      ['a zip archive', (file: string) => (rmSync(join(source, 'dev/null')), zip(source, file, '.'))],
      ['an export of LXD or Incus', (file: string) => sh('tar', '-caf', file, '-C', exported, '.')],
      [
        'an export with zstd whose paths do not begin with "./"',
        (file: string) => sh('tar', '--zstd', '-cf', file, '-C', exported, 'metadata.yaml', 'rootfs', 'templates'),
      ],
      [
        'an archive in a zip archive',
        (file: string) => {
          sh('tar', '--xz', '-cf', `${scratch.path}/rootfs.tar.xz`, '-C', exported, '.')
          zip(scratch.path, file, 'rootfs.tar.xz')
        },
      ],
    ] as const)
      it(`are unpacked with owners, modes and links if they are ${what}`, async () => {
        const archive = `${scratch.path}/made-${next}.zip`
        make(archive)
        const path = await target(64 * mib)
        expect(await unpack(archive, path)).to.equal('done')
        expectFilled(path)
      })

    it('are unpacked completely if they contain a folder “rootfs” but LXD or Incus did not create them', async () => {
      const other = `${scratch.path}/no-export`
      mkdirSync(join(other, 'rootfs/etc'), { recursive: true })
      mkdirSync(join(other, 'etc'))
      sh('tar', '-cf', `${other}.tar`, '-C', other, '.')
      const path = await target(64 * mib)
      expect(await unpack(`${other}.tar`, path)).to.equal('done')
      expect(readdirSync(path).sort()).to.deep.equal(['etc', 'rootfs'])
    })
  })

  it('are unpacked even if only root can read them, and are not changed', async () => {
    const source = `${scratch.path}/private`
    mkdirSync(source)
    writeFileSync(`${source}/file`, 'content')
    sh('tar', '--create', `--file=${source}.tar`, '-C', source, 'file')
    sh('zip', '-q', '-j', `${source}.zip`, `${source}/file`, `${source}.tar`)
    for (const archive of [`${source}.tar`, `${source}.zip`]) {
      chmodSync(archive, 0o600)
      const before = statSync(archive)
      const path = await target(16 * mib)
      expect(await unpack(archive, path), archive).to.equal('done')
      expect(readFileSync(`${path}/file`, 'utf8')).to.equal('content')
      const { mode, uid, ctimeMs } = statSync(archive)
      expect({ mode, uid, ctimeMs }, archive).to.include({
        mode: before.mode,
        uid: before.uid,
        ctimeMs: before.ctimeMs,
      })
    }
  })

  it('leave no unpacking process when they are canceled', async () => {
    const stop = new AbortController()
    const path = await target(1024 * mib)
    const archive = `${scratch.path}/long.tar`
    const header =
      'import sys,tarfile; i = tarfile.TarInfo("zeros"); i.size = 20 << 30; sys.stdout.buffer.write(i.tobuf())'
    writeFileSync(archive, execFileSync('python3', ['-c', header]))
    sh('truncate', '--size=21G', archive)
    const work = unpackArchive({ archive, target: path, hostIdBase }, stop.signal)
    await waitFor(() => readdirSync(path).length > 0, { what: 'tar to begin' })
    stop.abort(new Error('canceled'))
    expect(await work.catch((error: Error) => error.message)).to.equal('canceled')
    await waitFor(() => !sh('ps', '-eo', 'args').includes(archive), { what: 'its processes to end' })
  })
})
