import { spawn, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { expect } from 'chai'
import type { Machine } from '../../agent/drivers/machine.js'
import { readCgroupLayout } from '../../agent/host/process/cgroup.js'
import { useLxcHost } from '../support/host/lxc-lab.js'
import { waitFor } from '../support/wait.js'
import { sh } from '../support/sh.js'

const prefix = 'btg'
describe('a guest of the lxc driver', function () {
  const lab = useLxcHost({ name: 'btest-lxc-guest', prefix, subnet: '10.214.6', lxcfs: true })
  const { attach, booted, observed, prepared, started, systemState } = lab
  const signal = new AbortController().signal

  describe('with systemd', () => {
    it('boots completely, and sees its own address, name and limits', async () => {
      const { limits: plain, nic } = lab.host.machine()
      const limits = { ...plain, vcpuMilli: 500 }
      const machine = await prepared({ limits, nic: { ...nic, ipv6Addresses: ['fd00::5', 'fd00::6'] } })
      await lab.host.driver.initialize(machine, { password: 'correct-horse-7' }, machine.volume)
      await lab.host.driver.start(machine, signal)
      await booted(machine)
      expect(systemState(machine)).to.equal('running', lab.host.inside(machine, 'systemctl', '--failed'))
      expect(lab.host.inside(machine, 'hostname')).to.equal(machine.hostname)
      expect(lab.host.inside(machine, 'ip', '-4', '-brief', 'address', 'show', 'eth0')).to.contain(machine.nic.ipv4)
      expect(lab.host.inside(machine, 'ip', '-4', 'address', 'show', 'eth0')).to.match(/brd 10\.214\.6\.255 /)
      const ipv6 = lab.host.inside(machine, 'ip', '-6', '-oneline', 'address', 'show', 'dev', 'eth0')
      expect(ipv6).to.match(/fd00::5\/128 scope global nodad \\/)
      expect(ipv6).to.match(/fd00::6\/128 scope global nodad deprecated \\/)
      expect(lab.host.inside(machine, 'ip', 'route')).to.contain(`default via ${machine.nic.gateway}`)
      expect(lab.host.inside(machine, 'cat', '/sys/class/net/eth0/address')).to.equal(machine.nic.mac)
      expect(lab.host.driver.hasLxcfs()).to.equal(true)
      expect(lab.host.inside(machine, 'cat', '/sys/devices/system/cpu/online')).to.equal('0')
      expect(lab.host.inside(machine, 'cat', '/proc/meminfo')).to.match(/^MemTotal: +524288 kB/)
      expect(lab.host.inside(machine, 'grep', '-c', '^processor', '/proc/cpuinfo')).to.equal('1')
      expect(Number(lab.host.inside(machine, 'cut', '-d.', '-f1', '/proc/uptime'))).to.be.below(120)
    })

    it('cannot do operations that only root on the host is allowed to do', async () => {
      const machine = await started()
      const node = `${machine.volume}/root/disk`
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
          '-P',
          `${lab.host.path}/state/lxc`,
          '-n',
          `${prefix}-${machine.id}`,
          '--clear-env',
          '--',
          '/bin/sh',
          '-c',
          command,
        ])
        expect(tried.status, name).to.not.equal(0)
      }
    })

    it('cannot exceed its swap, process and processor limits', async () => {
      const machine = await started()
      const { version, controllers } = readCgroupLayout()
      const read = (controller: string, file: string): string =>
        readFileSync(`${controllers.get(controller)}/lxc.payload.${prefix}-${machine.id}/${file}`, 'utf8').trim()
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

  /** Resizes a guest. @returns the result of the driver as text */
  async function resized(machine: Machine): Promise<string> {
    const result = await lab.host.driver.resize(machine)
    if (result.outcome === 'refused') return `refused, ${result.error.code}`
    return result.changed ? `${result.outcome}, changed` : result.outcome
  }

  describe('with limits and usage figures', () => {
    it('gets higher and lower limits while it runs, and the limits are stored', async () => {
      const machine = await started()
      const { controllers, version, unified } = readCgroupLayout()
      const group = `${controllers.get('memory')}/lxc.payload.${prefix}-${machine.id}`
      for (const mib of [1024, 256, 512]) {
        const limits = { ...machine.limits, memoryBytes: mib * 2 ** 20, vcpuMilli: mib }
        const wanted = { ...machine, limits, isolation: { ...machine.isolation, pidsMax: mib } }
        expect(await resized(wanted)).to.equal('applied, changed')
        expect(await resized(wanted), 'the same again').to.equal('applied')
        const file = version === 1 ? 'memory.limit_in_bytes' : 'memory.max'
        expect(readFileSync(`${group}/${file}`, 'utf8').trim()).to.equal(`${mib * 2 ** 20}`)
      }
      const config = readFileSync(`${lab.host.path}/state/lxc/${prefix}-${machine.id}/config`, 'utf8')
      expect(config).to.contain('pids.max = 512\n')
      const io = { ...machine.limits, ioReadBytesPerSec: 1_000_000, ioWriteBytesPerSec: 2_000_000 }
      for (const wanted of [{ ...machine, limits: io }, machine])
        expect([await resized(wanted), await resized(wanted)]).to.deep.equal(['applied, changed', 'applied'])
      writeFileSync(`${controllers.get('pids')}/lxc.payload.${prefix}-${machine.id}/pids.max`, '77')
      expect([await resized(machine), await resized(machine)]).to.deep.equal(['applied, changed', 'applied'])
      const bound = `${unified}/lxc.payload.${prefix}-${machine.id}/cgroup.max.descendants`
      writeFileSync(bound, 'max') // as if an older agent had created the group, without this limit
      expect([await resized(machine), await resized(machine)]).to.deep.equal(['applied, changed', 'applied'])
      expect(readFileSync(bound, 'utf8').trim()).to.equal('512')
    })

    it('gets changed limits at its next start if it is stopped', async () => {
      const machine = await prepared()
      const wanted = { ...machine, limits: { ...machine.limits, memoryBytes: 2 ** 28 } }
      expect([await resized(wanted), await resized(wanted)]).to.deep.equal(['at_next_start, changed', 'at_next_start'])
    })

    it('cannot get a memory limit below its current usage', async () => {
      const machine = await started()
      await booted(machine)
      const fill = attach(machine, '/bin/sh', '-c', 'head -c 200m /dev/zero | tail | sleep 30')
      const child = spawn('lxc-attach', fill, { stdio: 'ignore' })
      try {
        const usage = async (): Promise<number> =>
          (await lab.host.driver.usage(machine, (await observed(machine)).pid)).memoryBytes
        await waitFor(async () => (await usage()) > 150 * 2 ** 20)
        const limits = { ...machine.limits, memoryBytes: 32 * 2 ** 20, swapBytes: 0 }
        expect(await resized({ ...machine, limits })).to.equal('refused, memory_in_use')
      } finally {
        child.kill('SIGKILL')
      }
    })

    it('has the same processor time, runnable tasks and traffic in Berth as inside the guest', async () => {
      const machine = await started()
      await booted(machine)
      const { pid } = await observed(machine)
      const first = await lab.host.driver.usage(machine, pid)
      sh('ping', '-c5', '-i0.01', '-s1000', machine.nic.ipv4)
      const busy = spawn('lxc-attach', attach(machine, '/bin/sh', '-c', 'while :; do :; done'), {
        stdio: 'ignore',
      })
      try {
        const second = await waitFor(
          async () => {
            const now = await lab.host.driver.usage(machine, pid)
            const grew = now.cpuUsec > first.cpuUsec + 100_000 && now.rxBytes > first.rxBytes + 5000
            return grew && now.runnable > 0 ? now : undefined
          },
          { intervalMs: 200 },
        )
        expect(second.txBytes).to.be.greaterThan(first.txBytes + 5000)
        expect(second.memoryBytes).to.be.within(2 ** 20, 512 * 2 ** 20)
      } finally {
        busy.kill('SIGKILL')
      }
    })

    it('has each byte of its disk reads and writes counted only once', async () => {
      const machine = await started()
      await booted(machine)
      const usage = async () => lab.host.driver.usage(machine, (await observed(machine)).pid)
      const inside = (command: string): string => sh('lxc-attach', ...attach(machine, '/bin/sh', '-c', command))
      await waitFor(async () => (await usage()).writeBytes !== undefined, { what: 'its disk is known' })
      const { writeBytes: before = 0 } = await usage()
      inside('dd if=/dev/urandom of=/root/block bs=1M count=32 oflag=direct')
      const { writeBytes: after = 0, readBytes: first = 0 } = await usage()
      expect(after - before).to.be.within(32 * 2 ** 20, 48 * 2 ** 20)
      inside('dd if=/root/block of=/dev/null bs=1M iflag=direct')
      expect(((await usage()).readBytes ?? 0) - first).to.be.within(32 * 2 ** 20, 48 * 2 ** 20)
    })
  })
})
