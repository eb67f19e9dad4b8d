import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { expect } from 'chai'
import type { Machine } from '../../agent/drivers/machine.js'
import { installBusyboxImage } from '../support/guests/busybox-image.js'
import { useLxcHost } from '../support/host/lxc-lab.js'
import { refusal } from '../support/refusal.js'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'

const prefix = 'bty'
const signal = new AbortController().signal

describe('the lxc driver', function () {
  const lab = useLxcHost({ name: 'btest-lxc-password', prefix, subnet: '10.214.11' })

  before(async () => {
    mkdirSync(`${lab.host.path}/pool/images`)
    await installBusyboxImage(`${lab.host.path}/pool`, 'busybox-1')
  })

  async function busybox(): Promise<Machine> {
    const machine = await lab.prepared()
    lab.host.removeVolume(machine)
    sh('btrfs', 'subvolume', 'snapshot', `${lab.host.path}/pool/images/busybox-1`, machine.volume)
    return machine
  }
  const start = (machine: Machine): Promise<void> => lab.host.driver.start(machine, signal)
  const set = (machine: Machine, password: string): Promise<unknown> => lab.host.driver.setPassword(machine, password)
  /** Fails unless the password hash of root is the one that openssl(1) computes for the password. */
  function expectPassword({ volume }: Machine, password: string): void {
    const shadow = readFileSync(`${volume}/etc/shadow`, 'utf8')
    const [, , salt = '', hash = ''] = (/^root:([^:]*):/m.exec(shadow)?.[1] ?? '').split('$')
    const wanted = sh('openssl', 'passwd', '-6', '-salt', salt, password).trim()
    expect(`$6$${salt}$${hash}`).to.equal(wanted)
  }
  /** Replaces chpasswd in the guest by a script. */
  function plant({ volume }: Machine, script: string): void {
    rmSync(`${volume}/usr/sbin/chpasswd`, { force: true })
    writeFileSync(`${volume}/usr/sbin/chpasswd`, `#!/bin/sh\n${script}\n`)
    chmodSync(`${volume}/usr/sbin/chpasswd`, 0o755)
  }

  describe('when it sets the host name of a renamed guest', () => {
    it('sets the name for the next start of the guest, keeps other lines of /etc/hosts, and follows no link', async () => {
      const machine = await lab.prepared()
      const files = { name: `${machine.volume}/etc/hostname`, hosts: `${machine.volume}/etc/hosts` }
      writeFileSync(files.hosts, '127.0.1.1 old\n10.0.0.1 of-the-owner\n')
      await lab.host.driver.setHostname({ ...machine, hostname: 'renamed', fqdn: 'renamed.example.com' })
      expect(readFileSync(files.hosts, 'utf8')).to.equal(
        '127.0.1.1 renamed.example.com renamed\n10.0.0.1 of-the-owner\n',
      )
      await start(machine)
      await waitFor(() => lab.host.inside(machine, 'hostname') === 'renamed', { what: 'the host name' })
      const outside = `${lab.host.path}/outside`
      rmSync(files.name)
      symlinkSync(outside, files.name)
      await lab.host.driver.setHostname({ ...machine, hostname: 'again' }).catch(() => undefined)
      expect(existsSync(outside)).to.equal(false)
    })
  })

  describe('when it sets a password', () => {
    const odd = `a$'"\\\`:b ä1`

    it('makes a login with the password possible in Debian, both for stopped and for running guests', async () => {
      const machine = await lab.prepared()
      await set(machine, 'first-word-1')
      expectPassword(machine, 'first-word-1')
      await start(machine)
      await set(machine, odd)
      expectPassword(machine, odd)
      const check = 'print((getpwnam "root")[1] eq crypt($ARGV[0], (getpwnam "root")[1]) ? "same" : "other")'
      expect(lab.host.inside(machine, 'perl', '-e', check, odd)).to.equal('same')
      expect(readFileSync(`${machine.volume}/etc/shadow`, 'utf8')).to.match(/^daemon:\*:/m)
    })

    it('sets the password in BusyBox without chpasswd, both for stopped and for running guests', async () => {
      const machine = await busybox()
      await set(machine, 'first-word-1')
      expectPassword(machine, 'first-word-1')
      await start(machine)
      await set(machine, 'second-word-2')
      expectPassword(machine, 'second-word-2')
    })

    it('gives the guest only a hash of the password, which never appears in arguments of a program', async () => {
      const machine = await lab.prepared()
      plant(machine, 'cat >/root/told; tr "\\0" " " </proc/$$/cmdline >>/root/told; env >>/root/told')
      await start(machine)
      await set(machine, 'secret-word-1')
      const told = readFileSync(`${machine.volume}/root/told`, 'utf8')
      expect(told).to.match(/^root:\$6\$[^:\n]+\n\/bin\/sh \S*chpasswd --encrypted /)
      expect(told).to.not.contain('secret-word-1')
    })

    it('fails within a time limit if the password program in the guest fails, hangs or prints endlessly', async () => {
      const programs = [
        [
          'echo no such luck >&2; printf "\\033[31mred" >&2; exit 1',
          /could not be set in the guest: no such luck .*red/,
        ],
        ['sleep 1000', /did not end within \d+ ms/],
        ['exec yes', /too much output/],
        ['sleep 1000 & exit 3', /could not be set in the guest/],
      ] as const
      await Promise.all(
        programs.map(async ([script, said]) => {
          const machine = await lab.prepared()
          plant(machine, script)
          await start(machine)
          const refused = await refusal(set(machine, 'first-word-1'))
          expect(refused, script).to.match(/guest_refused/)
          expect(refused, script).to.match(said)
          expect(refused, script).to.not.match(/\p{Cc}/u)
          const title = `^lxc-attach .*${prefix}-${machine.id} `
          expect(spawnSync('pgrep', ['-f', title]).stdout.toString(), 'remaining lxc-attach').to.equal('')
        }),
      )
    })

    it('fails if files of a stopped guest are links, and does not change their targets', async () => {
      const machine = await lab.prepared()
      const canary = `${lab.host.path}/canary`
      writeFileSync(canary, 'root:*:1::::::\n')
      rmSync(`${machine.volume}/etc/shadow`)
      symlinkSync(canary, `${machine.volume}/etc/shadow`)
      expect(await refusal(set(machine, 'first-word-1'))).to.match(/guest_refused/)
      expect(readFileSync(canary, 'utf8')).to.equal('root:*:1::::::\n')
    })

    it('ignores stale lock files in the guest, but fails while vipw runs in the guest', async () => {
      const machine = await lab.prepared()
      for (const name of ['passwd.lock', 'shadow.lock']) mkdirSync(`${machine.volume}/etc/${name}`)
      sh('cp', `${machine.volume}/bin/sleep`, `${machine.volume}/root/vipw`)
      await start(machine)
      expect(await refusal(set(machine, 'first-word-1'))).to.match(/guest_refused/)
      await lab.host.driver.overridePassword(machine, 'second-word-2')
      expectPassword(machine, 'second-word-2')
      lab.host.inside(machine, 'sh', '-c', '/root/vipw 1000 >/dev/null 2>&1 </dev/null &')
      expect(await refusal(lab.host.driver.overridePassword(machine, 'third-word-3'))).to.match(/vipw is running/)
      expectPassword(machine, 'second-word-2')
    })

    it('rejects a password of more than one line', async () => {
      const machine = await lab.prepared()
      expect(await refusal(set(machine, 'first\ndaemon:x'))).to.match(/not a single line/)
    })
  })

  describe('when it reads the present login', () => {
    const key = 'ssh-ed25519 AAAA me'
    const read = (machine: Machine): Promise<unknown> => lab.host.driver.readLogin(machine)
    const shadowField = 'root:$y$j9T$salt$hash:1::::::\n'

    it('finds the password and the keys that the owner of a running guest has set', async () => {
      const machine = await lab.prepared()
      await start(machine)
      const change = `usermod -p '$y$j9T$salt$hash' root; mkdir -p /root/.ssh; echo "${key}" >>/root/.ssh/authorized_keys`
      lab.host.inside(machine, 'sh', '-c', change)
      expect(await read(machine)).to.deep.equal({ passwordHash: '$y$j9T$salt$hash', authorizedKeys: [key] })
    })

    it('follows links inside the guest, but no links to the host', async () => {
      const machine = await lab.prepared()
      const root = machine.volume
      mkdirSync(`${root}/root/keys`, { recursive: true })
      writeFileSync(`${root}/root/keys/authorized_keys`, key)
      rmSync(`${root}/root/.ssh`, { recursive: true, force: true })
      symlinkSync('/root/keys', `${root}/root/.ssh`)
      writeFileSync(`${root}/etc/shadow`, shadowField)
      const login = { passwordHash: '$y$j9T$salt$hash', authorizedKeys: [key] }
      expect(await read(machine)).to.deep.equal(login)
      const outside = `${lab.host.path}/outside`
      mkdirSync(outside)
      writeFileSync(`${outside}/authorized_keys`, 'of the host')
      writeFileSync(`${outside}/shadow`, shadowField.replace('salt', 'host'))
      for (const [path, target] of [
        ['root/.ssh', outside],
        ['etc/shadow', `${outside}/shadow`],
        ['etc/passwd', `../../../..${outside}/shadow`],
      ] as const) {
        rmSync(`${root}/${path}`, { recursive: true, force: true })
        symlinkSync(target, `${root}/${path}`)
      }
      expect(await read(machine)).to.deep.equal({ passwordHash: '*', authorizedKeys: [] })
    })

    it('neither waits for pipes nor reads devices or endless files', async () => {
      const machine = await lab.prepared()
      const root = machine.volume
      for (const path of ['etc/shadow', 'etc/passwd']) rmSync(`${root}/${path}`)
      sh('mkfifo', `${root}/etc/shadow`)
      sh('mknod', `${root}/etc/passwd`, 'c', '1', '5')
      mkdirSync(`${root}/root/.ssh`, { recursive: true })
      sh('truncate', '-s', '1T', `${root}/root/.ssh/authorized_keys`)
      expect(await read(machine)).to.deep.equal({ passwordHash: '*', authorizedKeys: [] })
    })
  })

  describe('when it freezes a guest', () => {
    const counter = ({ volume }: Machine): string => {
      const path = `${volume}/root/count`
      return existsSync(path) ? readFileSync(path, 'utf8') : ''
    }

    /** Starts a guest that counts in a file as fast as it can. The count stops while the guest is frozen. */
    async function counting(): Promise<Machine> {
      const machine = await busybox()
      const count = 'i=0; while :; do i=$((i+1)); echo $i >/root/count.new; mv /root/count.new /root/count; done'
      writeFileSync(`${machine.volume}/etc/inittab`, `::respawn:/bin/sh -c '${count}'\n`)
      await start(machine)
      await waitFor(() => counter(machine) !== '', { what: 'the guest to count' })
      return machine
    }
    const goesOn = (machine: Machine): Promise<unknown> => {
      const before = counter(machine)
      return waitFor(() => counter(machine) !== before, { what: 'the guest to continue' })
    }

    it('stops all processes of the guest until the thaw, even if freeze and thaw are repeated', async () => {
      const machine = await counting()
      await goesOn(machine)
      for (let i = 0; i < 2; i++) expect(await lab.host.driver.freeze(machine, 5000)).to.equal(true)
      const held = counter(machine)
      sh('sleep', '0.2')
      expect(counter(machine)).to.equal(held)
      expect((await lab.observed(machine)).pid).to.be.greaterThan(0)
      for (let i = 0; i < 2; i++) await lab.host.driver.thaw(machine)
      await goesOn(machine)
    })

    it('can still stop and kill the frozen guest', async () => {
      for (const end of ['stop', 'kill'] as const) {
        const machine = await counting()
        expect(await lab.host.driver.freeze(machine, 5000)).to.equal(true)
        await (end === 'stop'
          ? lab.host.driver.stop(machine, { timeoutMs: 300, signal })
          : lab.host.driver.kill(machine))
        expect(await lab.host.driver.observe()).to.deep.equal([])
      }
    })

    it('returns false for a stopped guest, and ignores a thaw of this guest', async () => {
      const machine = await lab.prepared()
      expect(await lab.host.driver.freeze(machine, 1000)).to.equal(false)
      await lab.host.driver.thaw(machine)
    })
  })
})
