import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { expect } from 'chai'
import { recordKernelSettings, restoreKernelSettings } from '../../agent/daemon/kernel-record.js'
import type { Machine } from '../../agent/drivers/machine.js'
import { ensureHostLimits } from '../../agent/drivers/lxc/host-limits.js'
import { subgroups, namespaceBounds } from '../../agent/drivers/lxc/plan-bounds.js'
import { readCgroupLayout } from '../../agent/host/process/cgroup.js'
import { createLogger } from '../../shared/logging.js'
import * as attacks from '../support/attacks/attacks.js'
import { useLxcHost } from '../support/host/lxc-lab.js'
import { waitFor } from '../support/wait.js'

const prefix = 'bthx'
const newNet = 0x40000000
const errno = { ENOSYS: 38, ENOPROTOOPT: 92 }

/** True if root has CAP_SYS_RESOURCE, which is needed to raise the limit of message queues on the host. */
function mayRaiseLimits(): boolean {
  const capabilities = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]
  return ((BigInt(`0x${capabilities ?? '0'}`) >> 24n) & 1n) === 1n
}

function filtersOf(pid: number): number {
  return Number(/^Seccomp_filters:\s*(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

/** Root in an unprivileged container attacks the host and other guests. */
describe('a hostile guest', function () {
  const lab = useLxcHost({ name: 'btest-hostile', prefix, subnet: '10.214.41', lxcfs: true })
  const held: ChildProcess[] = []

  before(async () => {
    const state = `${lab.host.path}/kernel`
    await recordKernelSettings(state, 'btesthx', `${state}.json`)
    ensureHostLimits()
  })
  after(() =>
    restoreKernelSettings(
      `${lab.host.path}/kernel`,
      createLogger({ name: 'test', level: 'error' }),
      `${lab.host.path}/kernel.json`,
    ),
  )
  afterEach(() => {
    for (const child of held.splice(0)) child.kill('SIGKILL')
  })

  /** Runs a command through systemd in the guest, because lxc-attach would give it fewer rights. */
  const runsItself = (machine: Machine, ...command: string[]): { status: number | null; said: string } => {
    const words = lab.attach(machine, 'systemd-run', '--pipe', '--wait', '--quiet', ...command)
    const { status, stdout, stderr } = spawnSync('lxc-attach', words, { encoding: 'utf8' })
    return { status, said: `${stdout}${stderr}`.trim() }
  }
  const runsPerl = (machine: Machine, code: string): string => {
    writeFileSync(`${machine.volume}/root/attack`, code)
    return runsItself(machine, 'perl', '/root/attack').said
  }
  const tries = (machine: Machine, code: string): string => {
    const result = spawnSync('lxc-attach', lab.attach(machine, 'perl', '-e', code), { encoding: 'utf8' })
    return `${result.stdout}${result.stderr}`.trim()
  }
  /** Runs code that takes as many resources as it can until the test ends. @returns the number of resources */
  const holds = async (machine: Machine, code: string): Promise<number> => {
    const child = spawn('lxc-attach', lab.attach(machine, 'perl', '-e', `$hold = 1; ${code}`))
    held.push(child)
    const [said] = (await once(child.stdout, 'data')) as [Buffer]
    return Number(said.toString())
  }

  it('cannot create more cgroups than its limit permits', async () => {
    const machine = await lab.started()
    const words = tries(machine, attacks.groups).split(' ')
    const made = new Map(words.flatMap((word, at) => (at % 2 === 0 ? [[word, Number(words[at + 1])]] : [])))
    const { version, unified } = readCgroupLayout()
    expect(made.get('unified'), words.join(' ')).to.be.within(1, subgroups.most)
    made.delete('unified')
    if (version === 1) expect([...made.keys()]).to.include.members(['memory', 'pids', 'devices', 'name=systemd'])
    expect([...made.values()].filter(Boolean), words.join(' ')).to.deep.equal([])
    const bound = readFileSync(`${unified}/lxc.payload.${prefix}-${machine.id}/cgroup.max.descendants`, 'utf8')
    expect(Number(bound)).to.equal(subgroups.most)
  })

  it('can open only kinds of sockets that servers use, no matter which system call it uses', async () => {
    const machine = await lab.started()
    await lab.booted(machine)
    expect(runsPerl(machine, attacks.families)).to.equal('1 2 10 16 17')
    const protocols = runsPerl(machine, attacks.netlinkProtocols).split(' ').map(Number)
    expect(protocols).to.include.members([0, 15, 16])
    expect([0, 4, 6, 9, 12, 15, 16], 'the kernel may have fewer').to.include.members(protocols)
    const opened = (family: number): number | null => {
      const path = `${machine.volume}/root/socket-${family}`
      writeFileSync(path, attacks.socketProgram(family), { mode: 0o755 })
      return runsItself(machine, `/root/socket-${family}`).status
    }
    const [unix, vsock] = [1, 40]
    expect(opened(unix), 'the direct call, with a permitted family').to.equal(1)
    expect(opened(vsock)).to.equal(0)
  })

  it('cannot create packet rings (no cgroup counts their memory)', async () => {
    const machine = await lab.started()
    await lab.booted(machine)
    expect(runsPerl(machine, attacks.packetRings)).to.equal(`${errno.ENOPROTOOPT} ${errno.ENOPROTOOPT}`)
  })

  it('cannot use kernel keyrings, because no namespace separates the keyrings of guests', async () => {
    const machine = await lab.started()
    await lab.booted(machine)
    const code = 'my @text = ("user", "x", "y"); syscall(248, @text, 1, -3); print $! + 0'
    expect(runsPerl(machine, code)).to.equal(`${errno.ENOSYS}`)
  })

  it('has one limit of network namespaces for all its users, and cannot use up other guests’ namespaces', async () => {
    const [machine, neighbour] = [await lab.started(), await lab.started()]
    const most = namespaceBounds.counts.max_net_namespaces ?? 0
    expect(await holds(machine, attacks.namespaces(newNet))).to.be.within(1, most)
    tries(machine, `open my $f, '>', '/proc/sys/user/max_net_namespaces'; print $f 100000`)
    expect(await holds(machine, attacks.namespaces(newNet)), 'having raised its own limit').to.be.within(0, most)
    expect(await holds(neighbour, attacks.namespaces(newNet))).to.be.at.least(most / 2)
  })

  for (const [what, code, least] of [
    ['asynchronous I/O', attacks.aio, 1_000_000],
    ['message queues', attacks.messageQueues, 50],
    ['queued signals', attacks.pendingSignals, 10_000],
    ['inotify instances', attacks.inotify, 1000],
  ] as const)
    it(`cannot use up the ${what} of other guests`, async function () {
      if (what === 'message queues' && !mayRaiseLimits()) this.skip() // requires CAP_SYS_RESOURCE
      const [machine, neighbour] = [await lab.started(), await lab.started()]
      const taken = await holds(machine, code)
      expect(taken).to.be.at.least(least)
      expect(await holds(neighbour, code), `next to ${taken}`).to.be.at.least(least)
    })

  describe('that tries to access devices of the host', () => {
    type Node = readonly [major: number, minor: number]
    const nodes: Record<'tun' | 'fuse' | 'kvm' | 'ptmx', Node> = {
      tun: [10, 200],
      fuse: [10, 229],
      kvm: [10, 232],
      ptmx: [5, 2],
    }
    /** Creates a device node on the disk of the guest, as a foreign image could contain one. */
    const plant = ({ volume }: Machine, [major, minor]: Node): void => {
      spawnSync('mknod', ['-m', '666', `${volume}/root/planted`, 'c', `${major}`, `${minor}`])
    }

    it('cannot open these devices by default, even if its disk contains device nodes', async () => {
      for (const [name, numbers] of Object.entries(nodes)) {
        const machine = await lab.started()
        plant(machine, numbers)
        const said = tries(machine, attacks.deviceNode(...numbers))
        expect(said, name).to.equal(`${'no node '.repeat(5)}Permission denied`)
      }
      const machine = await lab.started()
      expect(tries(machine, attacks.tun)).to.equal('open: No such file or directory')
      expect(tries(machine, attacks.fuse)).to.equal('open: No such file or directory')
    })

    it('can create tun interfaces only in its own network namespace, even if it is allowed to use tun', async () => {
      const machine = await lab.started({ devices: ['tun'] })
      const words = lab.attach(machine, 'perl', '-e', `$hold = 1; ${attacks.tun}`)
      const child = spawn('lxc-attach', words)
      held.push(child)
      const [said] = (await once(child.stdout, 'data')) as [Buffer]
      expect(said.toString()).to.equal('made tun9\n')
      expect(lab.host.inside(machine, 'ip', '-o', 'link', 'show', 'tun9')).to.contain('tun9')
      expect(existsSync('/sys/class/net/tun9')).to.equal(false)
      plant(machine, nodes.fuse)
      expect(tries(machine, attacks.deviceNode(...nodes.fuse)), 'the other device').to.match(/Permission denied$/)
      expect(tries(machine, attacks.fuse)).to.match(/^open: /)
    })

    it('can mount FUSE file systems only for itself, even if it is allowed to use FUSE', async function () {
      if (!existsSync('/dev/fuse')) this.skip() // the host has no FUSE
      const machine = await lab.started({ devices: ['fuse'] })
      const child = spawn('lxc-attach', lab.attach(machine, 'perl', '-e', `$hold = 1; ${attacks.fuse}`))
      held.push(child)
      const [said] = (await once(child.stdout, 'data')) as [Buffer]
      expect(said.toString()).to.equal('mounted\n')
      expect(readFileSync('/proc/self/mountinfo', 'utf8')).to.not.contain(' - fuse attack ')
      const { pid } = await lab.observed(machine)
      expect(readFileSync(`/proc/${pid}/mountinfo`, 'utf8')).to.contain(' - fuse attack ')
      // Even root of the host gets no access to this mount, because an access would wait for an answer of the guest.
      expect(() => readdirSync(`/proc/${pid}/root/mnt`)).to.throw(/EACCES/)
      expect(tries(machine, attacks.tun)).to.match(/^open: /)
    })
  })

  it('does not see the kernel command line of the host, even after a reboot', async () => {
    const machine = await lab.started()
    expect(lab.host.inside(machine, 'cat', '/proc/cmdline')).to.equal('')
    const { startTime, pid } = await lab.observed(machine)
    const filters = filtersOf(pid)
    await lab.booted(machine)
    spawnSync('lxc-attach', lab.attach(machine, 'systemctl', 'reboot'))
    await waitFor(
      async () => {
        const now = (await lab.host.driver.observe()).find(({ uuid }) => uuid === machine.uuid)
        return now?.state === 'running' && now.startTime !== startTime
      },
      { what: 'the reboot' },
    )
    const most = namespaceBounds.counts.max_net_namespaces ?? 0
    expect(await holds(machine, attacks.namespaces(newNet))).to.be.within(1, most)
    const { pid: rebooted } = await lab.observed(machine)
    expect([filters, filtersOf(rebooted)], 'of the agent and of lxc').to.deep.equal([2, 2])
    expect((await lab.host.reopen()).describeOutdated(), 'after a restart of the agent').to.deep.equal([])
    expect(tries(machine, attacks.groups))
      .to.match(/unified [1-9]/)
      .and.not.match(/(memory|pids) [1-9]/)
  })
})
