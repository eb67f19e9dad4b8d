import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { expect } from 'chai'
import type { Machine, StopCause } from '../../agent/drivers/contract.js'
import { readCgroupLayout } from '../../agent/host/cgroup.js'
import { openLxcHost, type LxcHost } from '../support/lxc-host.js'
import { waitFor } from '../support/wait.js'

const prefix = 'btl'
const sh = (program: string, ...args: string[]): string =>
  execFileSync(program, args, { stdio: ['ignore', 'pipe', 'pipe'] }).toString()

describe('lxc driver', function () {
  this.timeout(120_000)
  let host: LxcHost
  const machines: Machine[] = []
  const ends: { uuid: string; cause: StopCause }[] = []
  const signal = new AbortController().signal

  before(async () => {
    host = await openLxcHost({ name: 'btest-lxc-driver', prefix, subnet: '10.214.8', lxcfs: true })
    host.driver.onStopped((uuid, cause) => ends.push({ uuid, cause }))
  })
  after(() => host.close())

  beforeEach(() => ends.splice(0))
  afterEach(async () => {
    for (const machine of machines.splice(0)) {
      await host.driver.kill(machine)
      await host.driver.delete(machine)
    }
    await waitFor(() => traces().length === 0, { what: () => `no traces, there are ${traces().join(' ')}` })
  })

  async function prepared(change?: Partial<Machine>): Promise<Machine> {
    const machine = host.machine(change)
    machines.push(machine)
    await host.driver.createDisk(machine)
    await host.driver.configure(machine)
    return machine
  }

  async function started(change?: Partial<Machine>): Promise<Machine> {
    const machine = await prepared(change)
    await host.driver.start(machine, signal)
    return machine
  }

  const observed = async (machine: Machine): Promise<{ pid: number; startTime: number }> => {
    const found = (await host.driver.observe()).find(({ uuid }) => uuid === machine.uuid)
    if (found?.pid === undefined || found.startTime === undefined) throw new Error('does not run')
    return { pid: found.pid, startTime: found.startTime }
  }

  /** What is left of this test's guests, found without the driver. */
  function traces(): string[] {
    const groups = readCgroupLayout()
      .hierarchies.flatMap((path) => readdirSync(path).map((name) => `${path}/${name}`))
      .filter((path) => new RegExp(`lxc\\.(payload|monitor)\\.${prefix}-`).test(path))
    const interfaces = readdirSync('/sys/class/net').filter((name) => new RegExp(`^${prefix}\\d`).test(name))
    const sockets = readFileSync('/proc/net/unix', 'latin1').match(/@\S*btest-lxc-driver\S*/g) ?? []
    const mounts =
      readFileSync('/proc/self/mountinfo', 'latin1').match(/btest-lxc-driver\/pool\/guests/g) ?? []
    const monitors = sh('ps', '-eo', 'stat,args').match(
      /^[^Z].*lxc monitor\] \/var\/tmp\/btest-lxc-driver.*$/gm,
    )
    const state = ['state/lxc', 'run/lxc-stopped', 'pool/guests'].flatMap((path) =>
      readdirSync(`${host.path}/${path}`),
    )
    return [...groups, ...interfaces, ...sockets, ...mounts, ...(monitors ?? []), ...state]
  }

  const systemState = (machine: Machine): string =>
    spawnSync(
      'lxc-attach',
      [
        '-P',
        `${host.path}/state/lxc`,
        '-n',
        `${prefix}-${machine.id}`,
        '--clear-env',
        '--',
        'systemctl',
        'is-system-running',
      ],
      { encoding: 'utf8' },
    ).stdout.trim()

  const booted = async (machine: Machine): Promise<void> => {
    await waitFor(() => ['running', 'degraded'].includes(systemState(machine)), {
      timeoutMs: 60_000,
      intervalMs: 100,
      what: () => `systemd to come up, it says ${systemState(machine)}`,
    })
  }

  describe('a systemd guest', () => {
    it('comes up whole, confined, with its own limits in view', async () => {
      const limits = { ...host.machine().limits, vcpuMilli: 500 }
      const machine = await prepared({ limits })
      await host.driver.initialize(machine, { password: 'correct-horse-7' })
      await host.driver.start(machine, signal)
      await booted(machine)
      expect(systemState(machine)).to.equal('running', host.inside(machine, 'systemctl', '--failed'))
      expect(host.inside(machine, 'hostname')).to.equal(machine.hostname)
      expect(host.inside(machine, 'ip', '-4', '-brief', 'address', 'show', 'eth0')).to.contain(
        machine.nic.ipv4,
      )
      expect(host.inside(machine, 'ip', '-4', 'address', 'show', 'eth0')).to.match(/brd 10\.214\.8\.255 /)
      expect(host.inside(machine, 'ip', 'route')).to.contain(`default via ${machine.nic.gateway}`)
      expect(host.inside(machine, 'cat', '/sys/class/net/eth0/address')).to.equal(machine.nic.mac)
      expect(host.driver.hasLxcfs()).to.equal(true)
      expect(host.inside(machine, 'cat', '/sys/devices/system/cpu/online')).to.equal('0')
      expect(host.inside(machine, 'cat', '/proc/meminfo')).to.match(/^MemTotal: +524288 kB/)
      expect(host.inside(machine, 'grep', '-c', '^processor', '/proc/cpuinfo')).to.equal('1')
      expect(Number(host.inside(machine, 'cut', '-d.', '-f1', '/proc/uptime'))).to.be.below(120)
    })

    it('may not what only a host may', async () => {
      const machine = await started()
      const node = `${host.rootfs(machine)}/root/disk`
      sh('mknod', '-m', '666', node, 'b', '7', '0')
      for (const [name, command] of [
        ['make a device', 'mknod /tmp/d b 7 0'],
        ['read a device that came with its image', 'head -c1 /root/disk'],
        ['raise its memory', 'echo 99999999999 >/sys/fs/cgroup/memory/memory.limit_in_bytes'],
        ['raise its processes', 'echo 99999 >/sys/fs/cgroup/pids/pids.max'],
        ['load a module', 'insmod /x.ko'],
        ['write to sysrq', 'echo b >/proc/sysrq-trigger'],
        ['change a host sysctl', 'echo 1 >/proc/sys/kernel/panic'],
        ['mount a disk', 'mount /root/disk /mnt'],
        ['set the clock', 'date -s 2000-01-01'],
        ['see the host’s processes', 'grep -q kthreadd /proc/2/comm'],
      ] as const) {
        const tried = spawnSync('lxc-attach', [
          ...['-P', `${host.path}/state/lxc`, '-n', `${prefix}-${machine.id}`, '--clear-env', '--'],
          ...['/bin/sh', '-c', command],
        ])
        expect(tried.status, name).to.not.equal(0)
      }
    })

    it('has a swap, process and processor limit that hold', async () => {
      const machine = await started()
      const { version, controllers } = readCgroupLayout()
      const read = (controller: string, file: string): string =>
        readFileSync(
          `${controllers.get(controller)}/lxc.payload.${prefix}-${machine.id}/${file}`,
          'utf8',
        ).trim()
      const check = (): void => {
        if (version === 1) {
          expect(read('memory', 'memory.limit_in_bytes')).to.equal(`${512 * 2 ** 20}`)
          expect(read('memory', 'memory.memsw.limit_in_bytes')).to.equal(`${768 * 2 ** 20}`)
          expect(read('cpu', 'cpu.cfs_quota_us')).to.equal('100000')
        } else {
          expect(read('memory', 'memory.max')).to.equal(`${512 * 2 ** 20}`)
          expect(read('memory', 'memory.swap.max')).to.equal(`${256 * 2 ** 20}`)
          expect(read('cpu', 'cpu.max')).to.equal('100000 100000')
        }
        expect(read('pids', 'pids.max')).to.equal('512')
      }
      check()
    })
  })

  describe('start', () => {
    it('is idempotent, also at once and by two agents', async () => {
      const machine = await prepared()
      const other = await host.reopen()
      await Promise.all([
        host.driver.start(machine, signal),
        other.start(machine, signal),
        host.driver.start(machine, signal),
      ])
      const first = await observed(machine)
      await host.driver.start(machine, signal)
      expect(await observed(machine)).to.deep.equal(first)
    })

    it('waits for an lxc-start that an agent now dead began', async () => {
      const machine = await prepared()
      const orphan = spawn(
        '/usr/bin/lxc-start',
        ['-P', `${host.path}/state/lxc`, '-n', `${prefix}-${machine.id}`],
        { env: { PATH: '/usr/sbin:/sbin' }, stdio: 'ignore' },
      )
      await waitFor(() => traces().some((trace) => trace.startsWith('@')), { intervalMs: 1 })
      await host.driver.start(machine, signal)
      expect((await observed(machine)).pid).to.be.greaterThan(0)
      if (orphan.exitCode === null) await new Promise((resolve) => orphan.once('exit', resolve))
      expect(orphan.exitCode).to.equal(0)
    })

    it('cleans up after a monitor that was killed', async () => {
      const machine = await started()
      const { pid } = await observed(machine)
      process.kill(parentOf(pid), 'SIGKILL')
      await waitFor(() => ends.length > 0, { timeoutMs: 5000 })
      expect(ends).to.deep.equal([{ uuid: machine.uuid, cause: 'crash' }])
      expect(
        traces().some((trace) => trace.includes('lxc.payload')),
        'leftovers',
      ).to.equal(true)
      await host.driver.start(machine, signal)
      expect((await observed(machine)).pid).to.not.equal(pid)
    })

    it('says why it failed, and leaves nothing', async () => {
      const machine = await prepared()
      rmSync(`${host.rootfs(machine)}/usr/sbin/init`, { force: true })
      const error: Error = await host.driver.start(machine, signal).then(
        () => expect.fail('started'),
        (reason: Error) => reason,
      )
      expect(error.message).to.match(/init/)
      expect(await host.driver.observe()).to.deep.equal([])
    })
  })

  function parentOf(pid: number): number {
    return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
  }

  describe('stop', () => {
    it('lets a guest that just began to boot end by itself', async () => {
      const machine = await started()
      const begun = performance.now()
      await host.driver.stop(machine, { timeoutMs: 30_000, signal })
      expect(performance.now() - begun).to.be.below(15_000)
      expect(await host.driver.observe()).to.deep.equal([])
      await host.driver.stop(machine, { timeoutMs: 1000, signal })
      expect(ends).to.deep.equal([])
    })

    it('kills one that does not listen, and one at once', async () => {
      const machine = await prepared()
      replaceInit(machine, 'trap "" PWR TERM INT; while :; do sleep 1; done')
      await host.driver.start(machine, signal)
      const begun = performance.now()
      await host.driver.stop(machine, { timeoutMs: 300, signal })
      expect(performance.now() - begun).to.be.within(300, 5000)
      await host.driver.start(machine, signal)
      await host.driver.stop(machine, { timeoutMs: 0, signal })
      expect(await host.driver.observe()).to.deep.equal([])
    })

    it('powers off an init that knows SIGPWR only', async () => {
      const machine = await prepared()
      replaceInit(machine, 'trap "exit 0" PWR; while :; do sleep 0.1; done')
      await host.driver.start(machine, signal)
      await host.driver.stop(machine, { timeoutMs: 20_000, signal })
      expect(await host.driver.observe()).to.deep.equal([])
    })

    it('ends with the caller’s signal, and the guest goes on', async () => {
      const machine = await prepared()
      replaceInit(machine, 'trap "" PWR; while :; do sleep 1; done')
      await host.driver.start(machine, signal)
      const stopping = new AbortController()
      const end = host.driver.stop(machine, { timeoutMs: 60_000, signal: stopping.signal })
      stopping.abort(new Error('shutting down'))
      expect(await end.catch((error: Error) => error.message)).to.equal('shutting down')
      await observed(machine)
    })

    it('does not mind groups nested deeper than a path is long', async () => {
      const machine = await started()
      await booted(machine)
      const memory = '/sys/fs/cgroup/memory'
      const nest = 'cd $0; i=0; while [ $i -lt 60 ]; do mkdir $1 && cd -P ./$1 || exit 1; i=$((i+1)); done'
      host.inside(
        machine,
        '/bin/sh',
        '-c',
        nest,
        existsSync(memory) ? memory : '/sys/fs/cgroup',
        'g'.repeat(200),
      )
      await host.driver.stop(machine, { timeoutMs: 20_000, signal })
      expect(await host.driver.observe()).to.deep.equal([])
    })
  })

  function replaceInit(machine: Machine, script: string): void {
    const init = `${host.rootfs(machine)}/usr/sbin/init`
    rmSync(init, { force: true })
    writeFileSync(init, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  }

  describe('ends', () => {
    it('a guest that powers itself off is told of, once', async () => {
      const machine = await started()
      await booted(machine)
      systemctl(machine, 'poweroff')
      await waitFor(() => ends.length > 0, { timeoutMs: 30_000 })
      expect(ends).to.deep.equal([{ uuid: machine.uuid, cause: 'guest' }])
      expect(await host.driver.observe()).to.deep.equal([])
    })

    it('a guest that ended while no agent looked is told of by the next', async () => {
      const machine = await started()
      const mark = `${host.path}/run/lxc-stopped/${prefix}-${machine.id}`
      await booted(machine)
      host.driver.close()
      systemctl(machine, 'poweroff')
      await waitFor(() => existsSync(mark), { timeoutMs: 30_000 })
      const next = await host.reopen()
      const told: StopCause[] = []
      next.onStopped((uuid, cause) => void (uuid === machine.uuid && told.push(cause)))
      await waitFor(() => told.length > 0)
      expect(told).to.deep.equal(['guest'])
      expect(existsSync(mark)).to.equal(false)
    })

    it('a reboot from inside is no end; network and identity stay', async () => {
      const next = await host.reopen()
      const told: string[] = []
      next.onStopped((uuid) => told.push(uuid))
      const machine = await started()
      await booted(machine)
      const before = await observed(machine)
      await next.observe()
      systemctl(machine, 'reboot')
      await waitFor(async () => (await next.observe()).some((o) => o.pid && o.pid !== before.pid), {
        timeoutMs: 30_000,
      })
      await booted(machine)
      sh('ping', '-c1', '-W5', machine.nic.ipv4)
      expect(host.inside(machine, 'grep', '-w', '/', '/proc/self/mountinfo')).to.match(/nodev.*idmapped/)
      expect(told).to.deep.equal([])
    })

    it('a stop during a reboot is a stop', async () => {
      const machine = await prepared()
      replaceInit(machine, 'sleep 0.3; reboot -ff')
      await host.driver.start(machine, signal)
      const first = await observed(machine)
      await waitFor(async () => (await host.driver.observe())[0]?.pid !== first.pid, { intervalMs: 1 })
      await host.driver.stop(machine, { timeoutMs: 5000, signal })
      expect(await host.driver.observe()).to.deep.equal([])
      await new Promise((resolve) => setTimeout(resolve, 300))
      expect(await host.driver.observe()).to.deep.equal([])
    })
  })

  const attach = (machine: Machine, ...command: string[]): string[] => [
    ...['-P', `${host.path}/state/lxc`, '-n', `${prefix}-${machine.id}`, '--clear-env', '--'],
    ...command,
  ]

  /** As its owner does it: answered at once, whether or not the guest has a logind. */
  function systemctl(machine: Machine, verb: 'poweroff' | 'reboot'): void {
    const { error } = spawnSync('lxc-attach', attach(machine, 'systemctl', verb), { timeout: 15_000 })
    expect(error, verb).to.equal(undefined)
  }

  describe('the agent’s end', () => {
    it('does not reach a guest: monitor and guest are in groups of their own', async () => {
      const machine = await started()
      const { pid } = await observed(machine)
      const own = readFileSync('/proc/self/cgroup', 'utf8').split('\n')
      for (const of of [pid, parentOf(pid)])
        for (const line of readFileSync(`/proc/${of}/cgroup`, 'utf8').trim().split('\n')) {
          const path = line.split(':')[2] ?? ''
          expect(path).to.match(new RegExp(`^/lxc\\.(payload|monitor)\\.${prefix}-${machine.id}`))
          expect(own.some((ours) => ours.endsWith(`:${path}`))).to.equal(false)
        }
      expect(parentOf(parentOf(pid))).to.not.equal(process.pid)
    })
  })

  describe('resize and usage', () => {
    it('changes a running guest’s limits both ways, and keeps them', async () => {
      const machine = await started()
      const { controllers, version } = readCgroupLayout()
      const group = `${controllers.get('memory')}/lxc.payload.${prefix}-${machine.id}`
      for (const mib of [1024, 256, 512]) {
        const limits = { ...machine.limits, memoryBytes: mib * 2 ** 20, vcpuMilli: mib, pidsMax: mib }
        expect(await host.driver.resize({ ...machine, limits })).to.equal(true)
        expect(await host.driver.resize({ ...machine, limits }), 'the same again').to.equal(false)
        const file = version === 1 ? 'memory.limit_in_bytes' : 'memory.max'
        expect(readFileSync(`${group}/${file}`, 'utf8').trim()).to.equal(`${mib * 2 ** 20}`)
      }
      const config = readFileSync(`${host.path}/state/lxc/${prefix}-${machine.id}/config`, 'utf8')
      expect(config).to.contain('pids.max = 512\n')
      const io = { ...machine.limits, ioReadBytesPerSec: 1_000_000, ioWriteBytesPerSec: 2_000_000 }
      for (const wanted of [{ ...machine, limits: io }, machine])
        expect([await host.driver.resize(wanted), await host.driver.resize(wanted)]).to.deep.equal([
          true,
          false,
        ])
      writeFileSync(`${controllers.get('pids')}/lxc.payload.${prefix}-${machine.id}/pids.max`, '77')
      expect([await host.driver.resize(machine), await host.driver.resize(machine)]).to.deep.equal([
        true,
        false,
      ])
    })

    it('refuses less memory than is in use', async () => {
      const machine = await started()
      await booted(machine)
      const fill = attach(machine, '/bin/sh', '-c', 'head -c 200m /dev/zero | tail | sleep 30')
      const child = spawn('lxc-attach', fill, { stdio: 'ignore' })
      try {
        const usage = async (): Promise<number> =>
          (await host.driver.usage(machine, (await observed(machine)).pid)).memoryBytes
        await waitFor(async () => (await usage()) > 150 * 2 ** 20, { timeoutMs: 20_000 })
        const limits = { ...machine.limits, memoryBytes: 32 * 2 ** 20, swapBytes: 0 }
        const refused = await host.driver
          .resize({ ...machine, limits })
          .catch((error: { code: string }) => error.code)
        expect(refused).to.equal('memory_in_use')
      } finally {
        child.kill('SIGKILL')
      }
    })

    it('counts processor time, runnable tasks and traffic as the guest sees them', async () => {
      const machine = await started()
      await booted(machine)
      const { pid } = await observed(machine)
      const first = await host.driver.usage(machine, pid)
      sh('ping', '-c5', '-i0.01', '-s1000', machine.nic.ipv4)
      const busy = spawn('lxc-attach', attach(machine, '/bin/sh', '-c', 'while :; do :; done'), {
        stdio: 'ignore',
      })
      try {
        const second = await waitFor(
          async () => {
            const now = await host.driver.usage(machine, pid)
            const grew = now.cpuUsec > first.cpuUsec + 100_000 && now.rxBytes > first.rxBytes + 5000
            return grew && now.runnable > 0 ? now : undefined
          },
          { timeoutMs: 20_000, intervalMs: 200 },
        )
        expect(second.txBytes).to.be.greaterThan(first.txBytes + 5000)
        expect(second.memoryBytes).to.be.within(2 ** 20, 512 * 2 ** 20)
      } finally {
        busy.kill('SIGKILL')
      }
    })
  })

  describe('console', () => {
    it('logs in on /dev/console', async () => {
      const machine = await prepared()
      await host.driver.initialize(machine, { password: 'correct-horse-7' })
      await host.driver.start(machine, signal)
      await booted(machine)
      const stream = await host.driver.console(machine)
      let text = ''
      stream.on('data', (chunk: Buffer) => (text += chunk.toString()))
      const says = (pattern: RegExp, send: string): Promise<unknown> =>
        waitFor(() => pattern.test(text), {
          what: () => `${String(pattern)} in ${text}`,
          timeoutMs: 20_000,
        }).then(() => {
          text = ''
          stream.write(send)
        })
      stream.write('\r')
      await says(/login:/, 'root\r')
      await says(/assword:/, 'correct-horse-7\r')
      await says(/[#$] /, 'echo $((40+2))x\r')
      await says(/42x/, 'exit\r')
      stream.destroy()
    })
  })

  describe('removeAll', () => {
    it('leaves nothing of guests that run or did, nor of the driver', async () => {
      const other = await openLxcHost({ name: 'btest-lxc-all', prefix: 'btm', subnet: '10.214.7' })
      try {
        expect(other.driver.hasLxcfs(), 'it does without lxcfs').to.equal(false)
        for (const start of [true, false]) {
          const machine = other.machine()
          await other.driver.createDisk(machine)
          await other.driver.configure(machine)
          if (start) await other.driver.start(machine, signal)
        }
        await other.driver.removeAll()
        expect(sh('find', '/sys/fs/cgroup', '-name', 'lxc.*btm*')).to.equal('')
        expect(readdirSync('/sys/class/net').filter((name) => /^btm\d/.test(name))).to.deep.equal([])
        expect(readdirSync(`${other.path}/state`).concat(readdirSync(`${other.path}/run`))).to.deep.equal([])
        await other.driver.removeAll()
      } finally {
        await other.close()
      }
    })
  })

  describe('a name that another guest has', () => {
    const refusal = (act: Promise<unknown>): Promise<string> =>
      act.then(
        () => 'done',
        (error: { code?: string }) => error.code ?? 'no code',
      )

    for (const [what, hide] of [
      ['known by its configuration', false],
      ['of which nothing is known', true],
    ] as const)
      it(`is not taken over, nor is it harmed: ${what}`, async () => {
        const machine = await started()
        const before = await observed(machine)
        const config = `${host.path}/state/lxc/${prefix}-${machine.id}/config`
        const kept = readFileSync(config, 'utf8')
        if (hide) rmSync(config)
        const driver = await host.reopen()
        const other = { ...machine, uuid: machine.uuid.replace(/^.{8}/, '00000000') }
        try {
          for (const act of [
            () => driver.createDisk(other),
            () => driver.configure(other),
            () => driver.start(other, signal),
          ])
            expect(await refusal(act())).to.equal('guest_foreign')
          if (!hide) expect(await refusal(driver.console(other))).to.equal('guest_foreign')
          await driver.stop(other, { timeoutMs: 1000, signal })
          await driver.kill(other)
          await driver.delete(other)
        } finally {
          driver.close()
          writeFileSync(config, kept, { mode: 0o600 })
        }
        expect(await observed(machine)).to.deep.include(before)
        expect(existsSync(host.rootfs(machine))).to.equal(true)
        expect(existsSync(host.rootfs(other))).to.equal(false)
      })
  })

  describe('delete and traces', () => {
    it('refuses a running guest; then removes all, twice', async () => {
      const machine = await started()
      expect(await host.driver.listTraces()).to.deep.equal([machine.uuid])
      const refused = await host.driver.delete(machine).catch((error: { code: string }) => error.code)
      expect(refused).to.equal('guest_running')
      await host.driver.kill(machine)
      await host.driver.kill(machine)
      await host.driver.delete(machine)
      await host.driver.delete(machine)
      await waitFor(async () => (await host.driver.listTraces()).length === 0, { what: 'no traces' })
    })

    it('a configuration is readable by root only and replaced as a whole', async () => {
      const machine = await prepared()
      const path = `${host.path}/state/lxc/${prefix}-${machine.id}`
      expect(statSync(`${path}/config`).mode & 0o777).to.equal(0o600)
      const { ino } = statSync(`${path}/config`)
      await host.driver.configure(machine)
      expect(statSync(`${path}/config`).ino).to.not.equal(ino)
      expect(readdirSync(path)).to.deep.equal(['config'])
    })
  })
})
