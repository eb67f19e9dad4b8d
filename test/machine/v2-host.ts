import { expect } from 'chai'
import { machineApi } from '../support/host/machine-api.js'
import { checkout } from '../support/host/systemd-machine.js'
import { V2Machine } from '../support/host/v2-machine.js'
import { waitFor } from '../support/wait.js'

/*
 * Tests Berth in a virtual machine that has only cgroup v2, like Debian 12 by default. This is slow, so
 * scripts/v2-host runs it and scripts/test does not.
 */

interface GuestRow {
  readonly status: string
  readonly ip: string
  readonly ssh_port: number
}

const mib = 1024 ** 2
const [ramMb, swapMb, pidsMax, vcpu] = [192, 96, 200, 0.5]
const patience = { timeoutMs: 15 * 60_000, intervalMs: 2000 }

let machine: V2Machine | undefined
const host = (): V2Machine => {
  if (!machine) throw new Error('the machine does not run')
  return machine
}
const run = (...command: string[]): string =>
  host()
    .run(...command)
    .trim()
const sh = (script: string): string => run('sh', '-c', script)
const { ask, tryAsk, follow } = machineApi(run)
const rowOf = (name: string): GuestRow => ask<GuestRow>(`/containers/${name}`)

/** First part of a command that runs as root in the first guest. */
const attach = ['lxc-attach', '-P', '/var/lib/berth/agent/lxc', '-n', 'bt-1', '--clear-env', '--']
const inside = (...command: string[]): string => run(...attach, ...command)
/** Runs Perl code in the guest. @returns its output, including errors */
const tries = (code: string): string => {
  const { output, error } = host().try(...attach, 'perl', '-e', code)
  return `${output}${error}`.trim()
}
const isBooted = (): boolean => /running|degraded/.test(host().try(...attach, 'systemctl', 'is-system-running').output)

const groupFile = (file: string): string => run('cat', `/sys/fs/cgroup/lxc.payload.bt-1/${file}`)
const groupKey = (file: string, key: string): number =>
  Number(new RegExp(`^${key} (\\d+)$`, 'm').exec(groupFile(file))?.[1])
const availableMib = (): number => Number(sh(`awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo`))

const limitFiles = ['memory.max', 'memory.swap.max', 'cpu.max', 'pids.max', 'cgroup.max.descendants']
const limits = (): string[] => limitFiles.map(groupFile)
const wantedLimits = [ramMb * mib, swapMb * mib, `${vcpu * 100_000} 100000`, pidsMax, 512].map(String)

async function power(name: string, action: 'stop' | 'start'): Promise<void> {
  const { task_id: id } = ask<{ task_id: string }>(`/containers/${name}/${action}`, { method: 'POST' })
  await follow(id, patience.timeoutMs)
}

async function create(name: string): Promise<void> {
  const body = {
    name,
    virtualization: 'lxc',
    template_id: 'debian-12',
    vcpu,
    ram_mb: ramMb,
    disk_gb: 2,
    assign_nat: true,
    port_mapping_count: 2,
  }
  const { task_id: id } = ask<{ task_id: string }>('/containers', { method: 'POST', body })
  await follow(id, patience.timeoutMs)
}

/** The first 7 bytes that the service at a port of the host sends. */
const bannerAt = (port: number): string =>
  host().try('timeout', '20', 'bash', '-c', `exec 3<>/dev/tcp/10.0.2.15/${port} && head -c 7 <&3`).output

/** Allocates memory in the guest and then runs Perl code. @param mibs size of the memory in MiB */
const hold = (mibs: number, code: string): string =>
  tries(`my ($n, @kept) = (${mib}); push @kept, 'a' x $n for 1 .. ${mibs}; ${code}`)

/** Tries to create 100,000 control groups in the guest. @returns the number of those created */
const makeGroups = (path: string): number =>
  Number(tries(`my $made = 0; mkdir "${path}/attack$_" and ++$made for 1 .. 100_000; print $made`))

/** A unit in the guest that writes a file when it is stopped. If the guest is killed, the file is missing. */
const endUnit = `[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=/bin/sh -c "echo clean >/root/ended"
`

/** Results of this run, as rows for the table in docs/design/guest-confinement.md: load, limit and result. */
const seen: string[] = []
const note = (what: string, bound: string | number, result: string): void =>
  void seen.push(`| ${what} | ${bound} | ${result} |`)

describe('a host with only cgroup v2', function () {
  this.bail(true) // each test needs the results of the previous ones

  before(async () => {
    machine = await V2Machine.create('btest-v2')
    await host().start()
  })
  after(async () => {
    console.log(seen.join('\n'))
    await machine?.destroy()
  })

  it('has no cgroup v1 hierarchy, like a default Debian', () => {
    expect(run('stat', '-fc', '%T', '/sys/fs/cgroup')).to.equal('cgroup2fs')
    expect(sh(`awk '$3 == "cgroup"' /proc/mounts`)).to.equal('')
    expect(run('cat', '/proc/cmdline')).not.to.include('cgroup')
  })

  it('runs Berth after scripts/up, without a warning about cgroups', async () => {
    const config = `sed -E 's/^  pids_max: .*/  pids_max: ${pidsMax}/' ${checkout}/systemd/agent.example.yaml`
    sh(`mkdir -p /etc/berth && ${config} >/etc/berth/agent.yaml`)
    // With emulated processors, scripts/up may reach a timeout. A repeated run continues where the last one ended.
    const up = (): string => host().try('bash', `${checkout}/scripts/up`, '--no-kvm').output
    const isUp = (text: string): string | undefined => (text.includes('Berth is up') ? text : undefined)
    const output = await waitFor(() => isUp(up()), { ...patience, timeoutMs: 60 * 60_000 })
    expect(output).to.not.include('cgroup')
    const report = await waitFor(() => tryAsk<{ warnings: string[] }>('/host-report'), patience)
    expect(report.warnings.join('\n')).to.not.include('cgroup')
    expect(ask<{ cgroup_version: number }[]>('/hosts')[0]?.cgroup_version).to.equal(2)
  })

  it('activates a swap file that was created over the API', () => {
    ask('/swap', { method: 'POST', body: { action: 'create', size_mb: 512 } })
    expect(run('swapon', '--noheadings', '--show=NAME')).to.include('/var/lib/berth')
  })

  it('boots a guest with systemd within its limits', async () => {
    await create('first')
    await waitFor(isBooted, { ...patience, what: 'the guest to boot' })
    expect(inside('systemctl', '--failed', '--no-legend', '--plain')).to.equal('')
    expect(limits()).to.deep.equal(wantedLimits)
  })

  it('limits memory and swap of a guest', () => {
    const swapped = Number(hold(ramMb, `open(my $f, '<', '/sys/fs/cgroup/memory.swap.current'); print <$f>`))
    expect(swapped).to.be.within(mib, swapMb * mib)
    const killedBefore = groupKey('memory.events', 'oom_kill')
    expect(hold(4 * ramMb, `print 'had it'`)).to.not.equal('had it')
    expect(groupKey('memory.events', 'oom_kill')).to.be.greaterThan(killedBefore)
    const peak = Number(groupFile('memory.peak'))
    expect(peak).to.be.at.most(ramMb * mib)
    note(`memory: ${4 * ramMb} MiB asked for`, `${ramMb} MiB`, `${Math.round(peak / mib)} MiB, then killed`)
    note(`swap: ${ramMb} MiB asked for`, `${swapMb} MiB`, `${Math.round(swapped / mib)} MiB swapped`)
    expect(isBooted(), 'the guest runs on').to.equal(true)
  })

  it('limits the processors of a guest', () => {
    const [usedBefore, throttledBefore] = ['usage_usec', 'nr_throttled'].map((key) => groupKey('cpu.stat', key))
    const loops = `for i in 1 2 3; do timeout 20 sh -c 'while :; do :; done' & done; wait`
    const begun = Number(run('date', '+%s%6N'))
    inside('sh', '-c', loops)
    const elapsed = Number(run('date', '+%s%6N')) - begun
    const share = (groupKey('cpu.stat', 'usage_usec') - usedBefore!) / elapsed
    expect(share).to.be.within(0.05, vcpu * 1.1)
    expect(groupKey('cpu.stat', 'nr_throttled')).to.be.greaterThan(throttledBefore!)
    note('processors: 3 loops on 2', vcpu, share.toFixed(2))
  })

  it('limits the number of processes in a guest', () => {
    const fork = `my $p = fork; defined $p or last; if (!$p) { sleep 900; exit } push @p, $p`
    const said = tries(`my @p; while (1) { ${fork} } print @p + 0, ' ', $! + 0; kill 9, @p`)
    const [made, errno] = said.split(' ').map(Number)
    expect(made).to.be.within(50, pidsMax)
    expect(errno).to.equal(11) // the error is EAGAIN, so memory was not exhausted
    note('processes: a loop of forks', pidsMax, `${made}, besides those of the system`)
  })

  it('limits the number of control groups that root creates in a guest', () => {
    const before = availableMib()
    const made = makeGroups('/sys/fs/cgroup')
    const lost = before - availableMib()
    expect(made).to.be.within(1, 512)
    expect(groupKey('cgroup.stat', 'nr_descendants')).to.be.at.most(512)
    tries(`mkdir '/mnt/own'; system('mount -t cgroup2 x /mnt/own')`)
    expect(makeGroups('/mnt/own'), 'mounted by itself').to.equal(0)
    tries(`rmdir for glob '/sys/fs/cgroup/attack*'; system('umount /mnt/own')`)
    expect(isBooted(), 'the guest runs on').to.equal(true)
    note('control groups: 100,000', 512, `${made}, besides those of the system; ${lost} MiB of the host's memory`)
  })

  it('does not let root in a guest raise its limits', () => {
    for (const file of limitFiles)
      expect(tries(`print open(my $f, '>', '/sys/fs/cgroup/${file}') ? 'open' : 'closed'`), file).to.equal('closed')
    expect(limits()).to.deep.equal(wantedLimits)
  })

  it('lets systemd in a guest limit its services', () => {
    const unit = ['systemd-run', '--pipe', '--wait', '-q', '-p', 'MemoryMax=24M', '-p', 'MemorySwapMax=0']
    const greedy = `my ($n, @kept) = (${mib}); push @kept, 'a' x $n for 1 .. 64; print 'had it'`
    const { code, output } = host().try(...attach, ...unit, 'perl', '-e', greedy)
    expect(output).to.equal('')
    expect(code).to.not.equal(0)
    note('a service with MemoryMax=: 64 MiB asked for', '24 MiB', 'killed')
  })

  it('keeps the limits while no agent runs and systemd reloads its units', async () => {
    run('systemctl', 'stop', 'berth-agent', 'berth-gateway')
    run('systemctl', 'daemon-reload')
    run('systemd-run', '--wait', '-q', 'true')
    expect(limits()).to.deep.equal(wantedLimits)
    const given = run('cat', '/sys/fs/cgroup/cgroup.subtree_control').split(' ')
    expect(given).to.include.members(['cpuset', 'cpu', 'io', 'memory', 'pids'])
    run('systemctl', 'start', 'berth-agent', 'berth-gateway')
    await waitFor(() => tryAsk('/host-report'), { ...patience, what: 'the host to be back' })
  })

  it('shuts guests down in a reboot, and starts them again with swap, addresses, ports and limits', async () => {
    await create('second')
    await power('second', 'stop')
    inside('sh', '-c', `echo '${endUnit}' >/etc/systemd/system/end.service && systemctl start end`)
    const before = rowOf('first')
    await host().reboot()
    const isBack = (): boolean => tryAsk<GuestRow>('/containers/first')?.status === 'running'
    await waitFor(isBack, { ...patience, what: 'the guest to be started' })
    await waitFor(isBooted, { ...patience, what: 'the guest to boot' })
    expect(inside('cat', '/root/ended')).to.equal('clean')
    expect(rowOf('first')).to.deep.equal(before)
    expect(rowOf('second').status).to.equal('stopped')
    expect(limits()).to.deep.equal(wantedLimits)
    expect(run('swapon', '--noheadings', '--show=NAME')).to.include('/var/lib/berth')
    await waitFor(() => bannerAt(before.ssh_port) === 'SSH-2.0', { ...patience, what: 'SSH at its port' })
    expect(run('systemctl', 'list-units', '--failed', '--plain', '--no-legend')).to.equal('')
  })

  it('has no control group or unit of Berth after scripts/down --purge', () => {
    run('bash', `${checkout}/scripts/down`, '--purge')
    expect(sh('ls -d /sys/fs/cgroup/lxc.* /etc/systemd/system/*berth* 2>/dev/null || true')).to.equal('')
  })
})
