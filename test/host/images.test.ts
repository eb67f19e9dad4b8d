import { execFileSync, spawn } from 'node:child_process'
import { existsSync, lstatSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from 'chai'
import { pino } from 'pino'
import { Images, type ImagesParts } from '../../agent/images/images.js'
import { PoolImages } from '../../agent/images/pool.js'
import { Changes } from '../../agent/state/changes.js'
import { openDatabase } from '../../agent/state/database.js'
import { openPool, type Pool } from '../../agent/storage/pool.js'
import { Trash } from '../../agent/storage/trash.js'
import { cacheTestImage } from '../support/guests/debian-image.js'
import { HandmadeGuest } from '../support/host/handmade-guest.js'
import { moduleUrl, nodeEval } from '../support/programs.js'
import { scratchDirectory, testStorage } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'
import { sh } from '../support/sh.js'

const log = pino({ level: 'silent' })
const never = new AbortController().signal
const publicMirror = 'http://deb.debian.org/debian'
describe('images', function () {
  const scratch = scratchDirectory('btest-images')
  const config = testStorage(scratch.path, 8)
  let pool: Pool
  let changes: Changes
  let images: Images

  const poolImages = (mirror: string): PoolImages =>
    new PoolImages({
      pool,
      trash: new Trash(pool, log),
      mirror,
      hostIdBase: 4_000_000_000,
      readBound: async () => 2 ** 40,
      fetch: {
        directory: pool.downloads,
        server: 'http://127.0.0.1:1',
        maxBytes: 1,
        policy: { allowHttp: false, allowedTargets: [], setting: '' },
        readFreeBytes: async () => 0,
      },
    })
  const openImages = (mirror = publicMirror): Promise<Images> =>
    startImages({
      pool: poolImages(mirror),
      changes,
      log,
    })

  before(async () => {
    pool = await openPool(config)
    changes = new Changes(openDatabase(`${scratch.path}/journal.db`))
    images = await openImages()
  })
  after(() => {
    changes.db.close()
    scratch.wipe()
  })

  /** PIDs of builds in the pool of this test, found by the folder of their temporary files. */
  function builders(): string[] {
    return readdirSync('/proc').filter((pid) => {
      try {
        return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`TMPDIR=${pool.images}/`)
      } catch {
        return false // the process has ended
      }
    })
  }

  async function expectNothingLeft(): Promise<void> {
    await waitFor(() => builders().length === 0, { what: 'all processes of the build to end' })
    expect(readdirSync(pool.images).filter((name) => name.startsWith('.'))).to.deep.equal([])
    await waitFor(() => readdirSync(pool.trash).length === 0, { what: 'the trash to be emptied' })
  }

  const refusal = (work: Promise<unknown>): Promise<string> =>
    work.then(
      () => expect.fail('did not fail'),
      (error: { code?: string; message: string }) => error.code ?? error.message,
    )

  describe('if their build fails or is aborted', () => {
    it('cause an error that reports an unreachable mirror', async () => {
      const away = await openImages('http://127.0.0.1:1/debian')
      expect(await refusal(away.ensure('debian-12', () => undefined, never))).to.equal('mirror_unreachable')
      expect(away.has('debian-12')).to.equal(false)
      await expectNothingLeft()
    })

    it('cause an error if the mirror does not have the release, or if Debian has not signed the release', async () => {
      let signed = false
      const server: Server = createServer((request, response) => {
        const found = signed && request.url === '/debian/dists/bookworm/InRelease'
        response.writeHead(found ? 200 : 404).end(found ? 'Origin: Mallory\nSuite: bookworm\n' : '')
      })
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      try {
        const hostile = await openImages(`http://127.0.0.1:${(server.address() as AddressInfo).port}/debian`)
        expect(await refusal(hostile.ensure('debian-12', () => undefined, never))).to.equal('release_missing')
        signed = true
        expect(await refusal(hostile.ensure('debian-12', () => undefined, never))).to.equal('image_signature')
      } finally {
        server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      }
      await expectNothingLeft()
    })

    it('cause an error if the template is not in the catalogue', async () => {
      for (const id of ['debian-1', '../guests', ''])
        expect(await refusal(images.ensure(id, () => undefined, never))).to.equal('template_unknown')
    })

    it('are no longer built after the last waiting caller has canceled', async () => {
      const [first, second] = [new AbortController(), new AbortController()]
      const stages: string[] = []
      const waits = [
        refusal(images.ensure('debian-12', (_, stage) => stages.push(stage), first.signal)),
        refusal(images.ensure('debian-12', () => undefined, second.signal)),
      ]
      await waitFor(() => stages.includes('reading package lists'), { what: 'the build' })
      first.abort(new Error('first went'))
      expect(await waits[0]).to.equal('first went')
      expect(builders()).to.not.deep.equal([])
      second.abort(new Error('second went'))
      expect(await waits[1]).to.equal('second went')
      await expectNothingLeft()
    })

    it('leave no process after a kill of the agent, and nothing at all after its next start', async () => {
      const script = `
        import { openPool } from '${moduleUrl('agent/storage/pool.ts')}'
        import { Trash } from '${moduleUrl('agent/storage/trash.ts')}'
        import { buildImage } from '${moduleUrl('agent/images/build.ts')}'
        import { recipes } from '${moduleUrl('agent/images/catalog.ts')}'
        const pool = await openPool(${JSON.stringify(config)})
        const parts = { pool, trash: new Trash(pool, console), mirror: '${publicMirror}' }
        const making = { report: (_, stage) => console.log(stage), signal: new AbortController().signal }
        await buildImage(parts, recipes[0], making)`
      const child = spawn('node', nodeEval(script), {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const ended = new Promise((resolve) => child.once('exit', resolve))
      let output = ''
      child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
      await waitFor(() => output.includes('reading package lists'), { what: 'the build' })
      await waitFor(() => builders().length > 3, { what: 'mmdebstrap and apt' })
      child.kill('SIGKILL')
      await ended
      await waitFor(() => builders().length === 0, { what: 'all processes of the build to end' })
      expect(readdirSync(pool.images)).to.not.deep.equal([])
      images = await openImages()
      await expectNothingLeft()
      expect(images.templates().filter(({ available }) => available)).to.deep.equal([])
    })
  })

  describe('of Debian 12', () => {
    const image = (path: string): string => `${pool.images}/debian-12/${path}`

    it('are built only once for all waiting callers, and report the progress', async () => {
      const fractions: number[] = []
      const before = changes.revision
      const umask = process.umask(0o077) // the agent's systemd unit sets the same umask
      await Promise.all([
        images.ensure('debian-12', (fraction) => fractions.push(fraction), never),
        images.ensure('debian-12', () => undefined, never),
      ]).finally(() => process.umask(umask))
      expect(fractions).to.deep.equal([...fractions].sort((a, b) => a - b))
      expect(fractions.length).to.be.above(6)
      const record = images.find('debian-12')
      expect(record).to.include({ id: 'debian-12', distro: 'debian', release: '12', available: true })
      expect(record?.sizeBytes).to.be.within(100e6, 400e6)
      expect(record?.revision).to.be.above(before)
      await expectNothingLeft()
      await cacheTestImage(pool)
    })

    it('are available without a second build, even for an agent with a new journal', async () => {
      await images.ensure('debian-12', () => undefined, never)
      const other = new Changes(openDatabase(`${scratch.path}/other.db`))
      const again = await startImages({
        pool: poolImages('http://127.0.0.1:1/debian'),
        changes: other,
        log,
      })
      expect(again.has('debian-12')).to.equal(true)
      other.db.close()
    })

    it('are read-only', () => {
      expect(() => writeFileSync(image('etc/x'), '')).to.throw(/EROFS/)
      expect(statSync(pool.images).mode & 0o777).to.equal(0o700)
    })

    it('contain no data of the machine that built them', () => {
      for (const path of ['etc/machine-id', 'etc/resolv.conf', 'etc/fstab']) {
        expect(lstatSync(image(path)).isFile(), path).to.equal(true)
        expect(readFileSync(image(path), 'utf8'), path).to.equal('')
      }
      expect(existsSync(image('etc/hostname'))).to.equal(false)
      expect(readdirSync(image('etc/ssh')).filter((name) => name.includes('host'))).to.deep.equal([])
      for (const directory of ['dev', 'tmp', 'run', 'var/lib/apt/lists', 'var/cache/apt'])
        expect(readdirSync(image(directory)), directory).to.deep.equal([])
      expect(readdirSync(image('etc/apt/apt.conf.d')).sort()).to.deep.equal(['01autoremove', '70debconf'])
      expect(existsSync(image('etc/apt/sources.list'))).to.equal(false)
      const uris = readFileSync(image('etc/apt/sources.list.d/debian.sources'), 'utf8').match(/^URIs: .*/gm)
      expect(uris).to.deep.equal(['URIs: http://deb.debian.org/debian', 'URIs: http://deb.debian.org/debian-security'])
      expect(readFileSync(image('etc/shadow'), 'utf8')).to.match(/^root:[*!]+:/m)
    })

    it('contain only files with the owners and modes of Debian, and no devices', () => {
      const setuid = sh('find', image(''), '-xdev', '-type', 'f', '-perm', '/6000', '-printf', '%P %U %m\n')
      expect(setuid.trim().split('\n').sort()).to.deep.equal(debianSetuid)
      expect(sh('find', image(''), '-xdev', '(', '-type', 'b', '-o', '-type', 'c', ')')).to.equal('')
      expect(sh('find', image(''), '-xdev', '-uid', '+0')).to.equal('')
      expect(sh('find', image(''), '-xdev', '-perm', '-o+w', '!', '-type', 'l', '!', '-perm', '-1000')).to.equal('')
    })

    it('give normal users access to the same directories as in Debian', () => {
      const closed = sh('find', image(''), '-xdev', '-type', 'd', '!', '-perm', '-005', '-printf', '%P\n')
      expect(closed.trim().split('\n').sort()).to.deep.equal(debianClosed)
    })

    it('can boot two guests with different identities', async () => {
      const guests = ['btest-images-a', 'btest-images-b'].map((name) => new HandmadeGuest(name, pool, scratch.path))
      try {
        for (const guest of guests) guest.start()
        for (const guest of guests) {
          await guest.up()
          expect(guest.attach('systemctl', 'is-system-running', '--wait').trim()).to.equal('running')
          expect(guest.attach('systemctl', '--failed', '--no-legend').trim()).to.equal('')
        }
        const of = (...command: string[]): string[] => guests.map((guest) => guest.attach(...command))
        for (const path of [
          '/etc/machine-id',
          '/etc/ssh/ssh_host_ed25519_key.pub',
          '/etc/ssh/ssh_host_ecdsa_key.pub',
        ]) {
          const [a, b] = of('cat', path)
          expect(a?.length, path).to.be.above(30)
          expect(a, path).to.not.equal(b)
        }
        expect(of('date', '+%Z')).to.deep.equal(['UTC\n', 'UTC\n'])
        expect(of('systemctl', 'is-active', 'ssh', 'dbus.socket', 'console-getty')[0]).to.equal(
          'active\nactive\nactive\n',
        )
        loginBySsh(guests[0]!, scratch.path)
        // Nothing starts systemd-logind at boot. It starts when a program sends it the first request.
        const [guest] = guests
        expect(guest!.attach('systemctl', 'show', '-PActiveState', 'systemd-logind')).to.equal('inactive\n')
        expect(guest!.attach('loginctl', 'list-users', '--no-legend')).to.equal('')
        guest!.attach('shutdown', '-r', '+5')
        expect(guest!.attach('cat', '/run/systemd/shutdown/scheduled')).to.contain('MODE=reboot')
        guest!.attach('shutdown', '-c')
        expect(guest!.attach('systemctl', 'is-active', 'systemd-logind')).to.equal('active\n')
        expect(guest!.attach('systemctl', '--failed', '--no-legend').trim()).to.equal('')
      } finally {
        for (const guest of guests) guest.remove()
      }
    })

    it('are reported as unavailable after they were deleted from the pool', async () => {
      sh('btrfs', '-q', 'subvolume', 'delete', `${pool.images}/debian-12`)
      const seen: string[] = []
      const stop = changes.onChange(({ kind, key, removed }) => seen.push(`${kind} ${key} ${removed}`))
      images = await openImages()
      stop()
      expect(images.has('debian-12')).to.equal(false)
      expect(images.find('debian-12')).to.include({ available: false, sizeBytes: 0 })
      expect(seen).to.deep.equal(['template debian-12 false'])
    })
  })
})

const debianClosed = [
  'etc/ssl/private',
  'root',
  'root/.ssh',
  'var/cache/ldconfig',
  'var/cache/private',
  'var/lib/private',
  'var/log/private',
]

const debianSetuid = [
  'usr/bin/chage 0 2755',
  'usr/bin/chfn 0 4755',
  'usr/bin/chsh 0 4755',
  'usr/bin/expiry 0 2755',
  'usr/bin/gpasswd 0 4755',
  'usr/bin/mount 0 4755',
  'usr/bin/newgrp 0 4755',
  'usr/bin/passwd 0 4755',
  'usr/bin/ssh-agent 0 2755',
  'usr/bin/su 0 4755',
  'usr/bin/umount 0 4755',
  'usr/lib/dbus-1.0/dbus-daemon-launch-helper 0 4754',
  'usr/lib/openssh/ssh-keysign 0 4755',
  'usr/sbin/unix_chkpwd 0 2755',
]

/** Logs in over SSH inside the network of the guest. The guest has only a loopback interface. */
function loginBySsh(guest: HandmadeGuest, directory: string): void {
  const askpass = `${directory}/askpass`
  writeFileSync(askpass, '#!/bin/sh\necho s3cret-word\n', { mode: 0o700 })
  guest.attach('sh', '-c', 'echo root:s3cret-word | chpasswd')
  const options = ['StrictHostKeyChecking=no', `UserKnownHostsFile=${directory}/known`, 'PubkeyAuthentication=no']
  const output = execFileSync(
    'nsenter',
    [
      '-t',
      guest.pid(),
      '-n',
      'setsid',
      'ssh',
      ...options.flatMap((option) => ['-o', option]),
      'root@127.0.0.1',
      'hostname',
    ],
    {
      env: { PATH: '/usr/sbin:/usr/bin', SSH_ASKPASS: askpass, SSH_ASKPASS_REQUIRE: 'force', DISPLAY: ':0' },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  expect(output.toString().trim()).to.equal(guest.name)
}

/** Opens the images as an agent does at its start. */
async function startImages(parts: ImagesParts): Promise<Images> {
  const images = new Images(parts)
  await images.sweep()
  return images
}
