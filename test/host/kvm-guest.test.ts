import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { expect } from 'chai'
import { UsageReader } from '../../agent/drivers/common/usage.js'
import type { ConsoleMode, Driver } from '../../agent/drivers/contract.js'
import type { Machine } from '../../agent/drivers/machine.js'
import { setLimits, type LimitsChange } from '../../agent/guests/settings/limits.js'
import { readCgroupLayout } from '../../agent/host/process/cgroup.js'
import { parseMemoryKill } from '../../agent/host/process/memory-kills.js'
import { findLiveProcess } from '../../agent/host/process/proc.js'
import { probeAccelerator } from '../../agent/host/guest/qemu.js'
import type { GuestSpec } from '../../proto/gen/berth/agent/v1/guest.js'
import { plainSpec, powerOrder, reinstallOrder, resetPasswordOrder } from '../support/host/agent-calls.js'
import { RealDomain } from '../support/host/real-domain.js'
import { sshInto } from '../support/guests/ssh-into.js'
import { installTinyImage } from '../support/guests/tiny-image.js'
import { waitFor } from '../support/wait.js'

const templateId = 'debian-12-kvm'
const password = 'a-Password-1'
const spec: Partial<GuestSpec> = {
  virtualization: 'kvm',
  templateId,
  sshAuthMode: 'password',
  sshPassword: password,
  limits: { ...plainSpec.limits!, ramMb: 256, vcpuMilli: 1000, diskGb: 1 },
}

/** Tests a virtual machine from a test image on real QEMU, with the operations of the agent. */
describe('a virtual machine', function () {
  const real = new RealDomain('kvg')
  let uuid = ''
  let driver: Driver
  const groups = readCgroupLayout().hierarchies

  before(async () => {
    await real.open()
    installTinyImage(real.config.storage.pool, templateId)
    await real.domain.images.sweep()
    driver = real.domain.context.machines.findDriver('kvm')!
    uuid = await real.create('vm-1', spec)
  })
  after(() => real.close())

  const machine = (): Machine => real.domain.context.machines.of(real.record(uuid))
  const inside = (command: string, login = password): Promise<string> =>
    sshInto({ address: real.record(uuid).ipv4, password: login }, command)
  const observed = async () => (await driver.observe()).find((one) => one.uuid === uuid)
  const runFile = (name: string): string => join(real.config.run_dir, 'kvm', `xkvg-${real.record(uuid).id}`, name)
  const socketOf = async (mode: ConsoleMode): Promise<string> => {
    const place = await driver.findConsole(machine(), mode)
    if (place.kind !== 'socket') throw new Error('not a socket')
    return place.path
  }
  const change = (wanted: LimitsChange): Promise<unknown> => {
    const { context, capacity } = real.domain
    return setLimits(context, { uuid, ifRevision: 0 }, { wanted, capacity })
  }
  const diskOf = (): string => join(real.host.volumes.pathOf(uuid), 'disk.raw')

  it('can run on a host without KVM, and the host reports why KVM is not available', async () => {
    expect(await probeAccelerator('tcg', 20_000)).to.equal(undefined)
    const { available, acceleration, accelerationReason } = await driver.describe()
    expect(available).to.equal(true)
    expect(acceleration === 'kvm').to.equal(accelerationReason === '')
  })

  it('answers SSH at its address, and has its name and password', async () => {
    expect(await inside('hostname; ip -4 -o addr show eth0')).to.match(
      new RegExp(`^vm-1\\n.*${real.record(uuid).ipv4.replaceAll('.', '\\.')}/20`),
    )
  })

  it('answers at its mapped port, and cannot send packets with a forged source address', async () => {
    const [address = ''] = execFileSync('hostname', ['-I'], { encoding: 'utf8' }).split(' ')
    const port = real.record(uuid).portMappings[0]!.hostPort
    expect(await sshInto({ address, port, password }, 'echo through')).to.equal('through')
    const { gateway, ipv4 } = machine().nic
    const foreign = ipv4.replace(/\d+$/, (last) => `${(Number(last) % 200) + 20}`)
    const ping = (from: string): string => `ping -c 2 -W 2 -I ${from} ${gateway} >/dev/null && echo yes || echo no`
    const said = await inside(
      `ip addr add ${foreign}/32 dev eth0; ${ping(ipv4)}; ${ping(foreign)}; ip addr del ${foreign}/32 dev eth0`,
    )
    expect(said).to.equal('yes\nno')
  })

  it('has a QEMU process with its own user, its own cgroups and a seccomp filter, and no capabilities', async () => {
    const { pid } = (await observed())!
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const { userIdBase } = machine().isolation
    expect(status).to.match(new RegExp(`^Uid:\\t${userIdBase}\\t${userIdBase}\\t${userIdBase}\\t${userIdBase}$`, 'm'))
    expect(status)
      .to.match(/^CapEff:\t0+$/m)
      .and.match(/^CapBnd:\t0+$/m)
    expect(status)
      .to.match(/^NoNewPrivs:\t1$/m)
      .and.match(/^Seccomp:\t2$/m)
    expect(status).to.match(/^PPid:\t1$/m)
    const group = `kvm.payload.xkvg-${real.record(uuid).id}`
    for (const line of readFileSync(`/proc/${pid}/cgroup`, 'utf8').trim().split('\n'))
      expect(line).to.match(new RegExp(`:/${group.replaceAll('.', '\\.')}$`))
  })

  it('has a QEMU that sees only system programs, and has opened only files of this guest', async () => {
    const { pid } = (await observed())!
    for (const name of ['mnt', 'pid', 'net', 'ipc', 'uts'])
      expect(readlinkSync(`/proc/${pid}/ns/${name}`), name).to.not.equal(readlinkSync(`/proc/self/ns/${name}`))
    const mounts = readFileSync(`/proc/${pid}/mountinfo`, 'utf8').trim().split('\n')
    const places = mounts.map((line) => line.split(' ')[4]!).filter((place) => place !== '/dev/kvm')
    const own = ['/', '/dev/null', '/dev/urandom', '/dev/zero', '/usr', runFile('work')]
    expect(places.sort()).to.deep.equal(own.sort())
    const links = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`))
    const isOwn = (link: string): boolean =>
      /^(socket:|anon_inode:|\/dev\/(null|kvm|net\/tun)$|\/memfd:)/.test(link) ||
      [real.config.state_dir, real.config.run_dir, real.config.storage.pool].some((place) => link.startsWith(place))
    expect(links.filter((link) => !isOwn(link))).to.deep.equal([])
  })

  it('has sockets that only their owner can use, and files that the user of its QEMU process cannot read', async () => {
    const { userIdBase } = machine().isolation
    for (const name of ['qmp', 'qmp2', 'serial', 'agent', 'work/vnc'])
      expect(lstatSync(runFile(name)).mode & 0o077, name).to.equal(0)
    const asQemu = ['--reuid', `${userIdBase}`, '--regid', `${userIdBase}`, '--clear-groups', '--']
    for (const path of [diskOf(), runFile('qmp'), runFile('work/vnc'), join(real.config.state_dir, 'kvm', 'xkvg-1')])
      expect(spawnSync('setpriv', [...asQemu, 'stat', path]).status, path).to.not.equal(0)
  })

  it('has the same usage figures in Berth and in its operating system', async () => {
    const { pid } = (await observed())!
    await waitFor(
      async () => {
        const { memoryBytes } = await driver.usage(machine(), pid!)
        return memoryBytes > 2 ** 20 && memoryBytes < 150 * 2 ** 20
      },
      { what: 'figures of the balloon' },
    )
    const sample = await driver.usage(machine(), pid!)
    expect(sample.cpuUsec).to.be.greaterThan(100_000)
    expect([sample.rxBytes > 0, sample.txBytes > 0]).to.deep.equal([true, true])
    await waitFor(async () => (await driver.usage(machine(), pid!)).diskBytes !== undefined, {
      what: 'the usage of its file systems',
    })
    // File systems use only about 30 MiB of the disk of 1 GiB.
    const { diskBytes } = await driver.usage(machine(), pid!)
    expect(diskBytes).to.be.within(1, 32 * 2 ** 20)
  })

  it('can be seen in a screenshot, in a screen by RFB, and on a text console', async () => {
    const image = await driver.screenshot(machine())
    expect(image.toString('latin1', 1, 4)).to.equal('PNG')
    expect(readdirSync(runFile('work'))).to.deep.equal(['vnc'])
    const display = connect(await socketOf('vnc'))
    const greeting = await new Promise<string>((resolve) =>
      display.once('data', (chunk: Buffer) => resolve(chunk.toString())),
    )
    display.destroy()
    expect(greeting).to.equal('RFB 003.008\n')
    expect(await socketOf('shell')).to.equal(await socketOf('serial'))
    const stream = connect(await socketOf('serial'))
    let said = ''
    stream.on('data', (chunk: Buffer) => (said += chunk.toString()))
    await waitFor(
      () => {
        stream.write('echo $((6*7))\n')
        return said.includes('42')
      },
      { what: 'a shell on the console' },
    )
    stream.destroy()
  })

  it('has a kernel whose report of an out-of-memory kill in cgroup v2 is counted correctly by the agent', async () => {
    const group = '/run/v2/kvm.payload.one'
    const said = await inside(
      `mkdir /run/v2 && mount -t cgroup2 none /run/v2 && echo +memory >/run/v2/cgroup.subtree_control &&
       mkdir ${group} && echo 8M >${group}/memory.max &&
       (sh -c 'echo $$ >${group}/cgroup.procs; echo $$; exec tail /dev/zero' || true) 2>&1 &&
       cat ${group}/memory.events && timeout 1 cat /dev/kmsg | grep 'Killed process'; umount /run/v2`,
    )
    const directory = join(real.config.run_dir, 'v2')
    mkdirSync(join(directory, 'kvm.payload.one'), { recursive: true })
    writeFileSync(join(directory, 'kvm.payload.one/memory.events'), said)
    const controllers = new Map(['cpu', 'memory', 'pids', 'io'].map((name) => [name, directory]))
    const reader = new UsageReader({ version: 2, hierarchies: [directory], controllers }, 'kvm.payload.')
    expect(reader.read('one', 'lo', 1).memoryKills).to.equal(1)
    const record = said.split('\n').find((line) => line.includes('Killed process')) ?? said
    expect(parseMemoryKill(record)).to.equal(Number(said.split('\n')[0]))
  })

  it('gets a new password immediately if it has a guest agent', async () => {
    await real.done(resetPasswordOrder(uuid, { password: 'another1' }).order)
    expect(real.record(uuid).atNextStart).to.deep.equal([])
    expect(await inside('echo in', 'another1')).to.equal('in')
    await real.done(resetPasswordOrder(uuid, { password }).order)
  })

  it('gets a larger disk and other network rates while it runs, and shows which limits change at its next start', async () => {
    await change({ diskGb: 2, ioReadMbps: 10 })
    expect(await inside('cat /sys/block/vda/size')).to.equal(`${(2 * 1024 ** 3) / 512}`)
    expect(real.record(uuid).atNextStart).to.deep.equal([])
    await change({ vcpuMilli: 2000, ramMb: 320 })
    expect(real.record(uuid).atNextStart).to.deep.equal(['limits'])
    await change({ vcpuMilli: 500, ramMb: 256 })
    expect(real.record(uuid).atNextStart).to.deep.equal([])
    const quota = join(groups.find((path) => existsSync(join(path, 'cpu.cfs_quota_us'))) ?? '', 'kvm.payload.xkvg-1')
    if (existsSync(join(quota, 'cpu.cfs_quota_us')))
      expect(readFileSync(join(quota, 'cpu.cfs_quota_us'), 'utf8').trim()).to.equal('50000')
    await change({ vcpuMilli: 1000 })
  })

  it('returns memory to the host while it runs, and gets the memory back on demand', async () => {
    const freeMb = async (): Promise<number> =>
      Number(await inside("awk '/^MemFree/ { print int($2 / 1024) }' /proc/meminfo"))
    const [before, { pid }] = [await freeMb(), (await observed())!]
    await change({ ramMb: 192 })
    expect(real.record(uuid).atNextStart).to.deep.equal([])
    await waitFor(async () => (await freeMb()) < before - 40, { what: 'its balloon' })
    // Memory in the balloon must not count as used.
    await waitFor(async () => (await driver.usage(machine(), pid!)).memoryBytes < 128 * 2 ** 20, {
      what: 'figures of the balloon',
    })
    await change({ ramMb: 256 })
    await waitFor(async () => (await freeMb()) > before - 20, { what: 'its memory' })
    expect(real.record(uuid).atNextStart).to.deep.equal([])
  })

  it('has the configured limit of read requests per second, and no limit if the limit is set to 0', async () => {
    const read = 'dd if=/dev/vda of=/dev/null bs=4k count=150 iflag=direct 2>/dev/null'
    const up = 'cut -d" " -f1 /proc/uptime'
    const seconds = async (): Promise<number> => {
      const [begun = NaN, ended = NaN] = (await inside(`${up}; ${read}; ${up}`)).split('\n').map(Number)
      return ended - begun
    }
    await change({ ioReadIops: 50 })
    const held = await seconds() // 150 requests at 50 per second take 3 s, minus the initial burst
    expect(held, 'seconds of 150 requests').to.be.greaterThan(2)
    await change({ ioReadIops: 0 })
    expect(await seconds(), 'seconds without a limit').to.be.lessThan(held)
  })

  it('gets and loses IPv6 addresses while it runs', async () => {
    const [first, second] = ['2001:db8::5', '2001:db8::6']
    const withAddresses = (ipv6Addresses: string[]): Machine => ({
      ...machine(),
      nic: { ...machine().nic, ipv6Addresses },
    })
    expect(await driver.assignAddresses(withAddresses([first, second]), [])).to.equal('applied')
    expect(await driver.assignAddresses(withAddresses([first, second]), [])).to.equal('unchanged')
    expect(await inside('ip -6 -o addr show eth0'))
      .to.contain(first)
      .and.contain(second)
    expect(await driver.assignAddresses(withAddresses([second]), [first])).to.equal('applied')
    expect(await inside('ip -6 -o addr show eth0'))
      .to.contain(second)
      .and.not.contain(first)
    await driver.assignAddresses(machine(), [second])
  })

  it('runs after a snapshot was restored onto it', async () => {
    await inside('echo before >/data/word; sync')
    const snapshotId = await real.done({ $case: 'snapshotCreate', value: { uuid, description: '' } })
    await inside('echo after >/data/word; sync')
    await real.done({ $case: 'snapshotRestore', value: { uuid, snapshotId } })
    expect(await inside('cat /data/word')).to.equal('before')
    await real.done({ $case: 'snapshotDelete', value: { uuid, snapshotId } })
    expect(existsSync(runFile('frozen'))).to.equal(false)
  })

  it('stops when its power button is pressed, and has the new password after its next start', async () => {
    await inside('echo kept >/data/kept; sync')
    const { pid } = (await observed())!
    await real.done({ $case: 'stop', value: { uuid, force: false } })
    expect([real.record(uuid).status, findLiveProcess(pid!), await observed()]).to.deep.equal([
      'stopped',
      undefined,
      undefined,
    ])
    expect(existsSync(`/sys/class/net/xkvg${real.record(uuid).id}`)).to.equal(false)
    await real.done(resetPasswordOrder(uuid, { password: 'later-One2' }).order)
    await real.done(powerOrder('start', uuid).order)
    expect(await inside('cat /data/kept', 'later-One2')).to.equal('kept')
  })

  it('gets a new disk and a new login when it is reinstalled', async () => {
    await real.done(
      reinstallOrder(uuid, { templateId: 'debian-12', sshAuthMode: 'password', sshPassword: password }).order,
    )
    expect(await inside('ls /data')).to.not.contain('kept')
    expect(real.record(uuid).spec.templateId).to.equal(templateId)
  })

  it('stays stopped if it shuts itself down, and is started again if its QEMU is killed', async () => {
    real.domain.reconciler.listen()
    await inside('(sleep 1; poweroff -f) >/dev/null 2>&1 </dev/null &')
    await waitFor(() => real.record(uuid).status === 'stopped', {
      what: 'its end',
    })
    expect(real.record(uuid)).to.include({ wanted: 'stopped', statusReason: 'shut down from inside' })
    await real.done(powerOrder('start', uuid).order)
    const { pid } = (await observed())!
    process.kill(pid!, 'SIGKILL')
    await waitFor(async () => ![undefined, pid].includes((await observed())?.pid), { what: 'its restart' })
  })

  /** Limits QEMU to its current memory without swap. The kernel kills QEMU when the guest uses more. */
  function starve(): void {
    const { version, controllers } = readCgroupLayout()
    const group = join(controllers.get('memory')!, `kvm.payload.xkvg-${real.record(uuid).id}`)
    const [used, limit, swap] =
      version === 1
        ? ['memory.usage_in_bytes', 'memory.limit_in_bytes', 'memory.swappiness']
        : ['memory.current', 'memory.max', 'memory.swap.max']
    try {
      writeFileSync(join(group, swap), '0')
      writeFileSync(join(group, limit), readFileSync(join(group, used)))
    } catch {
      return // QEMU has more memory by now, or has ended
    }
  }

  it('is started again and causes an alert if its QEMU runs out of memory', async () => {
    await inside('(while :; do head -c 100m /dev/zero | tail -n 1; done) >/dev/null 2>&1 </dev/null &')
    const { pid } = (await observed())!
    const alert = await waitFor(
      () => {
        starve()
        return real.domain.abuse.alerts.open(Date.now()).find(({ guestUuid }) => guestUuid === uuid)
      },
      { what: 'an alert' },
    )
    expect(alert).to.include({ type: 'out_of_memory', severity: 'high', count: 1 })
    expect(alert.detail).to.equal('the guest was killed: the memory limit of 256 MB was reached')
    await waitFor(async () => ![undefined, pid].includes((await observed())?.pid), { what: 'its restart' })
    expect(real.record(uuid).wanted).to.equal('running')
  })

  it('keeps running after a kernel panic, and its status shows the panic', async () => {
    await waitFor(() => real.record(uuid).status === 'running', { what: 'it to run' })
    await inside('echo 0 >/proc/sys/kernel/panic; (sleep 1; echo c >/proc/sysrq-trigger) >/dev/null 2>&1 &')
    await waitFor(() => real.record(uuid).statusReason === 'the system of the guest panicked', {
      what: 'the report of its panic',
    })
    expect(real.record(uuid)).to.include({ status: 'running', wanted: 'running' })
  })

  it('is deleted completely', async () => {
    await waitFor(() => real.record(uuid).status === 'running', { what: 'it to run' })
    const { id } = real.record(uuid)
    const { pid } = (await observed())!
    await real.done(powerOrder('delete', uuid).order)
    expect(findLiveProcess(pid!)).to.equal(undefined)
    expect(existsSync(`/sys/class/net/xkvg${id}`)).to.equal(false)
    for (const folder of [real.config.run_dir, real.config.state_dir])
      expect(readdirSync(join(folder, 'kvm')), folder).to.deep.equal([])
    for (const path of groups) expect(existsSync(`${path}/kvm.payload.xkvg-${id}`), path).to.equal(false)
    expect(await real.host.volumes.list()).to.deep.equal([])
  })
})
