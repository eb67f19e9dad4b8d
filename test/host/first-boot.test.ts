import { spawn, spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { expect } from 'chai'
import type { Login, Machine } from '../../agent/drivers/machine.js'
import { openLxcHost, type LxcHost } from '../support/host/lxc-host.js'
import { sh } from '../support/sh.js'

const login: Login = {
  password: `a$'"\\\`:b ä1`,
  publicKey: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ me@example "quoted" $(x)',
}

describe('the first-boot configuration of a container', function () {
  let host: LxcHost
  const machines: Machine[] = []

  before(async () => {
    host = await openLxcHost({ name: 'btest-first-boot', prefix: 'btf', subnet: '10.214.9' })
  })
  after(() => host?.close())
  afterEach(async () => {
    for (const machine of machines.splice(0)) {
      await host.driver.kill(machine)
      await host.driver.delete(machine)
      host.removeVolume(machine)
    }
  })

  async function cloned(): Promise<Machine> {
    const machine = host.machine()
    machines.push(machine)
    host.clone(machine)
    return machine
  }

  const rootFile = (machine: Machine, path: string): string => readFileSync(`${machine.volume}/${path}`, 'utf8')
  const modeOf = (machine: Machine, path: string): string => {
    const { mode, uid, gid } = statSync(`${machine.volume}/${path}`)
    return `${(mode & 0o7777).toString(8)} ${uid} ${gid}`
  }
  const passwordOf = (text: string): string => /^root:([^:]*):/m.exec(text)?.[1] ?? ''

  it('sets the host name, /etc/hosts, resolv.conf and the login, and can be repeated', async () => {
    const machine = await cloned()
    const shadowMode = modeOf(machine, 'etc/shadow')
    await host.driver.initialize(machine, login, machine.volume)
    await host.driver.initialize(machine, login, machine.volume)
    expect(rootFile(machine, 'etc/hostname')).to.equal(`${machine.hostname}\n`)
    expect(rootFile(machine, 'etc/hosts')).to.contain(`127.0.1.1 ${machine.hostname}\n`)
    expect(rootFile(machine, 'etc/resolv.conf')).to.equal('nameserver 192.0.2.53\nnameserver 2001:db8::53\n')
    expect(rootFile(machine, 'root/.ssh/authorized_keys')).to.equal(`${login.publicKey}\n`)
    expect(modeOf(machine, 'root/.ssh/authorized_keys')).to.equal('600 0 0')
    expect(modeOf(machine, 'root/.ssh')).to.equal('700 0 0')
    expect(modeOf(machine, 'etc/hosts')).to.equal('644 0 0')
    expect(modeOf(machine, 'etc/shadow')).to.equal(shadowMode)
    const leftOver = readdirSync(`${machine.volume}/etc`).filter((name) => name.includes('.berth'))
    expect(leftOver).to.deep.equal([])
  })

  it('stores the password as a crypt(5) hash', async () => {
    const machine = await cloned()
    await host.driver.initialize(machine, login, machine.volume)
    const shadow = rootFile(machine, 'etc/shadow')
    const [, , salt = ''] = passwordOf(shadow).split('$')
    expect(passwordOf(shadow)).to.equal(sh('openssl', 'passwd', '-6', '-salt', salt, login.password ?? '').trim())
    expect(shadow.match(/^daemon:\*:/m)).to.not.equal(null)
  })

  it('is in effect inside the running guest', async () => {
    const plain = await cloned()
    const machine = { ...plain, fqdn: `${plain.hostname}.example.com` }
    await host.driver.initialize(machine, login, machine.volume)
    await host.driver.configure(machine)
    await host.driver.start(machine, new AbortController().signal)
    expect(host.inside(machine, 'hostname', '-f')).to.equal(machine.fqdn)
    expect(host.inside(machine, 'stat', '-c%u %g', '/etc/hostname', '/root/.ssh')).to.equal('0 0\n0 0')
    expect(host.inside(machine, 'hostname')).to.equal(machine.hostname)
  })

  it('disables the password of the image if the guest has only an SSH key', async () => {
    for (const [path, before] of [
      ['etc/shadow', 'root:$6$image$hash:1::::::'],
      ['etc/shadow', 'root:!:1::::::'], // locked account: an sshd without PAM would reject even its keys
    ] as const) {
      const machine = await cloned()
      const file = `${machine.volume}/${path}`
      writeFileSync(file, readFileSync(file, 'utf8').replace(/^root:.*$/m, before))
      await host.driver.initialize(machine, { publicKey: login.publicKey! }, machine.volume)
      expect(passwordOf(rootFile(machine, path))).to.equal('*')
    }
  })

  it('is rejected while the guest runs', async () => {
    const machine = await cloned()
    await host.driver.configure(machine)
    await host.driver.start(machine, new AbortController().signal)
    expect(await failureOf(host.driver.initialize(machine, login, machine.volume))).to.contain(
      'stop the container first',
    )
  })

  it('is completely on the disk when the call returns, so that a power failure does not undo it', async () => {
    const machine = await cloned()
    await host.driver.initialize(machine, login, machine.volume)
    // A copy of the pool's device does not contain the kernel's caches. It is like the disk after a power failure.
    const copy = `${host.path}/after-power-loss`
    sh('cp', '--sparse=always', `${host.path}/pool.img`, `${copy}.img`)
    mkdirSync(copy)
    sh('mount', '-o', 'loop', `${copy}.img`, copy)
    try {
      const etc = `${copy}/guests/${machine.uuid}/etc`
      expect(readFileSync(`${etc}/hostname`, 'utf8')).to.equal(`${machine.hostname}\n`)
      expect(readFileSync(`${etc}/hosts`, 'utf8')).to.contain(machine.hostname)
      expect(readFileSync(`${etc}/shadow`, 'utf8')).to.match(/^root:\$6\$/m)
    } finally {
      sh('umount', copy)
      rmSync(copy, { recursive: true })
      rmSync(`${copy}.img`)
    }
  })

  it('stores the password in the passwd file if there is no shadow file', async () => {
    const machine = await cloned()
    rmSync(`${machine.volume}/etc/shadow`)
    await host.driver.initialize(machine, login, machine.volume)
    expect(passwordOf(rootFile(machine, 'etc/passwd'))).to.match(/^\$6\$/)
    expect(existsSync(`${machine.volume}/etc/shadow`)).to.equal(false)
  })

  describe('for a copied guest', () => {
    const key = (machine: Machine): string => rootFile(machine, 'root/.ssh/authorized_keys')
    const homes: [string, string][] = [
      ['that has a normal directory /root', ':'],
      ['that has no directory /root', 'rm -rf root'],
      ['whose /root is a relative link to a directory', 'mkdir -p home; mv root home/root; ln -s home/root root'],
      ['whose /root is an absolute link to a directory', 'mkdir -p home; mv root home/root; ln -s /home/root root'],
      ['whose /root is a dangling link', 'rm -rf root; ln -s nowhere root'],
      ['whose /root is a link out of the guest', 'rm -rf root; ln -s ../../../outside root'],
      ['whose /root is a file', 'rm -rf root; echo >root'],
      ['whose /root is writable for other users', 'chmod 777 root; chown 1000:1000 root'],
      ['whose /root has no permissions', 'chmod 0 root'],
      ['whose /root/.ssh is a link', 'rm -rf root/.ssh; mkdir root/keys; ln -s keys root/.ssh'],
      ['whose /root/.ssh is a link out of the guest', 'rm -rf root/.ssh; ln -s /var/tmp root/.ssh'],
      ['whose /root/.ssh is a file', 'rm -rf root/.ssh; echo >root/.ssh'],
      ['whose /root/.ssh is writable for other users', 'mkdir -p root/.ssh; chown 1:1 root/.ssh; chmod 777 root/.ssh'],
      ['whose authorized_keys is a directory', 'mkdir -p root/.ssh/authorized_keys/x'],
      ['whose authorized_keys is a link', 'mkdir -p root/.ssh; ln -s ../../etc/passwd root/.ssh/authorized_keys'],
      [
        'whose authorized_keys is immutable',
        'mkdir -p root/.ssh; echo x >root/.ssh/authorized_keys; chattr +i root/.ssh/authorized_keys root/.ssh root',
      ],
      ['that has the SSH keys of the original guest', 'mkdir -p root/.ssh; echo theirs >root/.ssh/authorized_keys'],
    ]
    const logins: [string, Login][] = [
      ['a password', { password: 'first-word-1' }],
      ['a key', { publicKey: login.publicKey! }],
      ['a password and a key', login],
      ['no login of its own', {}],
    ]

    for (const [name, script] of homes)
      it(`sets a password, a key, both or neither in a copy ${name}`, async () => {
        for (const [what, own] of logins) {
          const machine = await cloned()
          const root = machine.volume
          sh('sh', '-euc', `cd ${root}; ${script}`)
          sh('sed', '-i', 's/^root:[^:]*/root:theirs/', `${root}/etc/shadow`)
          const outside = readdirSync('/var/tmp').filter((entry) => !entry.startsWith('btest'))
          expect(await failureOf(host.driver.adopt(machine, own, { volume: root })), what).to.equal('done')
          const hash = passwordOf(rootFile(machine, 'etc/shadow'))
          const hasNone = own.password === undefined && own.publicKey === undefined
          expect(hash, what).to.match(own.password ? /^\$6\$/ : hasNone ? /^theirs$/ : /^\*$/)
          if (own.publicKey) {
            const found = sh('chroot', root, 'sh', '-c', 'cat ~root/.ssh/authorized_keys').trim()
            expect(found, what).to.equal(own.publicKey)
            const modes = sh('chroot', root, 'sh', '-c', 'stat -L -c "%u %a" ~root ~root/.ssh').trim()
            for (const line of modes.split('\n')) expect(line, what).to.match(/^0 7[0145]{2}$/)
          } else if (own.password) expect(() => key(machine), what).to.throw()
          expect(readdirSync('/var/tmp').filter((entry) => !entry.startsWith('btest'))).to.deep.equal(outside)
          spawnSync('chattr', ['-R', '-f', '-i', `${root}/root`], { stdio: 'ignore' }) // chattr(1) fails for links
        }
      })

    it('keeps the name servers and the lines of /etc/hosts, but not the machine ID and the host keys', async () => {
      const machine = await cloned()
      const root = machine.volume
      writeFileSync(`${root}/etc/hosts`, '127.0.0.1 localhost\n127.0.1.1 old.example.com old\n192.0.2.7 database')
      writeFileSync(`${root}/etc/machine-id`, `${'1'.repeat(32)}\n`)
      mkdirSync(`${root}/etc/ssh`, { recursive: true })
      writeFileSync(`${root}/etc/ssh/ssh_host_ed25519_key`, 'theirs', { mode: 0o600 })
      writeFileSync(`${root}/etc/ssh/ssh_host_ed25519_key.pub`, 'theirs')
      const own = 'nameserver 198.51.100.9\n'
      writeFileSync(`${root}/etc/resolv.conf`, own)
      await host.driver.adopt(machine, login, { volume: root, resolvers: ['192.0.2.1'] })
      expect(rootFile(machine, 'etc/resolv.conf')).to.equal(own)
      writeFileSync(`${root}/etc/resolv.conf`, 'nameserver 192.0.2.1\n')
      await host.driver.adopt(machine, login, { volume: root, resolvers: ['192.0.2.1'] })
      expect(rootFile(machine, 'etc/resolv.conf')).to.match(/^nameserver 192.0.2.53\n/)
      expect(rootFile(machine, 'etc/hosts')).to.equal(
        `127.0.0.1 localhost\n127.0.1.1 ${machine.hostname}\n192.0.2.7 database\n`,
      )
      expect(rootFile(machine, 'etc/machine-id')).to.match(/^(?!1{32})[0-9a-f]{32}\n$/)
      const shown = sh('ssh-keygen', '-y', '-f', `${root}/etc/ssh/ssh_host_ed25519_key`).trim()
      expect(rootFile(machine, 'etc/ssh/ssh_host_ed25519_key.pub').trim()).to.equal(shown)
      expect(existsSync(`${root}/etc/ssh/ssh_host_dsa_key`)).to.equal(false)
    })
  })

  describe('for a hostile image', () => {
    const canary = (): string => `${host.path}/canary`
    const links = (root: string, files: readonly string[]): void => {
      for (const file of files) {
        rmSync(`${root}/${file}`, { recursive: true, force: true })
        symlinkSync(canary(), `${root}/${file}`)
      }
    }
    const fifos = (root: string, files: readonly string[]): void => {
      for (const file of files) {
        rmSync(`${root}/${file}`, { force: true })
        sh('mkfifo', `${root}/${file}`)
      }
    }
    const etcElsewhere = (root: string, target: string): void => {
      renameSync(`${root}/etc`, `${root}/etc-real`)
      symlinkSync(target, `${root}/etc`)
    }

    for (const [name, plant, outcome] of [
      [
        'links to files of the host',
        (root: string) => links(root, ['etc/hostname', 'etc/hosts', 'etc/resolv.conf', 'etc/hostname.berth']),
        /^done$/,
      ],
      ['a link in place of the shadow file', (root: string) => links(root, ['etc/shadow']), /etc\/shadow: Too many/],
      ['a link in place of .ssh', (root: string) => links(root, ['root/.ssh']), /^done$/],
      ['a link in place of /etc', (root: string) => etcElsewhere(root, '/etc'), /etc: Too many levels/],
      [
        'a link out of the guest in place of /etc',
        (root: string) => etcElsewhere(root, '../..'),
        /etc: Too many levels/,
      ],
      [
        'FIFOs in place of /etc/hostname and /etc/hosts',
        (root: string) => fifos(root, ['etc/hostname', 'etc/hostname.berth', 'etc/hosts']),
        /^done$/,
      ],
      ['a FIFO in place of the shadow file', (root: string) => fifos(root, ['etc/shadow']), /not a plain file/],
      [
        'a device in place of /etc/hostname',
        (root: string) => {
          rmSync(`${root}/etc/hostname`, { force: true })
          sh('mknod', '-m', '666', `${root}/etc/hostname`, 'b', '7', '0')
        },
        /^done$/,
      ],
      [
        'a directory in place of /etc/hosts',
        (root: string) => {
          rmSync(`${root}/etc/hosts`, { force: true })
          mkdirSync(`${root}/etc/hosts/x`, { recursive: true })
        },
        /etc\/hosts: Is a directory/,
      ],
      ['a shadow file of 1 TiB', (root: string) => truncateSync(`${root}/etc/shadow`, 1024 ** 4), /not a plain file/],
      [
        'no user root',
        (root: string) => {
          writeFileSync(`${root}/etc/shadow`, '')
          writeFileSync(`${root}/etc/passwd`, 'rooty:x:0:0::/root:/bin/sh\n')
        },
        /no entry for root/,
      ],
    ] as const)
      it(`changes nothing on the host despite ${name} in the image`, async () => {
        const machine = await cloned()
        writeFileSync(canary(), 'untouched', { mode: 0o666 })
        plant(machine.volume)
        const before = hostFiles()
        expect(await failureOf(host.driver.initialize(machine, login, machine.volume))).to.match(outcome)
        expect(readFileSync(canary(), 'utf8')).to.equal('untouched')
        expect(hostFiles()).to.equal(before)
      })

    it('follows no link out of the guest, even if a process repeatedly replaces /etc by such a link', async () => {
      const machine = await cloned()
      const root = machine.volume
      const outside = `${host.path}/outside`
      mkdirSync(outside)
      symlinkSync(outside, `${root}/link`)
      const swaps = `while :; do mv -T etc real && mv -T link etc; mv -T etc link && mv -T real etc; done`
      const swapping = spawn('sh', ['-c', swaps], { cwd: root, stdio: 'ignore' })
      const outcomes = new Set<string>()
      try {
        for (let i = 0; i < 60; i++) outcomes.add(await failureOf(host.driver.initialize(machine, {}, machine.volume)))
      } finally {
        swapping.kill('SIGKILL')
      }
      expect(readdirSync(outside)).to.deep.equal([])
      expect([...outcomes].some((outcome) => outcome !== 'done')).to.equal(true) // some attempts met the link
    })
  })
})

function failureOf(done: Promise<void>): Promise<string> {
  return done.then(
    () => 'done',
    (error: Error) => error.message,
  )
}

function hostFiles(): string {
  return ['/etc', '/etc/hostname', '/etc/hosts', '/etc/resolv.conf', '/etc/shadow', '/etc/passwd']
    .map((path) => `${path} ${statSync(path).ino} ${statSync(path).mtimeMs}`)
    .join('\n')
}
