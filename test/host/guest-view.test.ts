import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import type { Machine } from '../../agent/drivers/machine.js'
import { ProcessorPlaces } from '../../agent/guests/processors/places.js'
import { setLimits } from '../../agent/guests/settings/limits.js'
import { readOnlineCpus } from '../../agent/host/process/online-cpus.js'
import { formatCpuList, parseCpuList } from '../../shared/cpu-list.js'
import { plainSpec, powerOrder } from '../support/host/agent-calls.js'
import { useLxcHost } from '../support/host/lxc-lab.js'
import { RealDomain } from '../support/host/real-domain.js'
import { waitFor } from '../support/wait.js'

const mib = 1024 ** 2

/** A container sees its own limits, and root in it cannot change them. */
describe('the processors that a guest sees', function () {
  const lab = useLxcHost({ name: 'btest-view', prefix: 'xvw', subnet: '10.214.77', lxcfs: true })
  const online = readOnlineCpus(undefined)
  const inside = (machine: Machine, command: string): string =>
    lab.host.inside(machine, 'sh', '-c', `${command} 2>&1; true`)
  const withCpus = (cpus: readonly number[], vcpuMilli: number): Partial<Machine> => ({
    limits: { ...lab.host.machine().limits, cpus, vcpuMilli },
  })
  /** Counts processors in each way that programs use: by affinity, in /proc/cpuinfo and in /proc/stat. */
  const counts = (machine: Machine): string =>
    inside(machine, 'nproc; grep -c ^processor /proc/cpuinfo; grep -c "^cpu[0-9]" /proc/stat').replaceAll('\n', ' ')

  before(function () {
    if (online.length < 2) this.skip() // with one processor, guest and host look the same
  })

  for (const [what, vcpuMilli] of [
    ['half a processor', 500],
    ['one processor', 1000],
  ] as const)
    it(`are reduced to one by a limit of ${what}`, async () => {
      const machine = await lab.started(withCpus([online[1]!], vcpuMilli))
      expect(counts(machine)).to.equal('1 1 1')
    })

  it('change their number with the limit while the guest runs', async () => {
    const machine = await lab.started(withCpus([online[1]!], 1000))
    for (const [cpus, vcpuMilli] of [
      [online.slice(0, 2), 2000],
      [[online[0]!], 1000],
    ] as const) {
      const wanted = { ...machine, limits: { ...machine.limits, cpus, vcpuMilli } }
      expect(await lab.host.driver.resize(wanted)).to.include({ outcome: 'applied', changed: true })
      expect(await lab.host.driver.resize(wanted)).to.include({ outcome: 'applied', changed: false })
      await waitFor(() => counts(machine) === Array(3).fill(cpus.length).join(' '), {
        what: () => counts(machine),
      })
      expect((await lab.host.driver.readProcessors()).get(machine.uuid)).to.deep.equal(cpus)
    }
  })

  it('cannot be increased by root in the guest', async () => {
    const machine = await lab.started(withCpus([online[1]!], 1000))
    const all = formatCpuList(online)
    inside(
      machine,
      `taskset -p -c ${all} 1; for f in $(find /sys/fs/cgroup -name 'cpuset.cpus'); do echo ${all} >$f; done`,
    )
    expect(counts(machine)).to.equal('1 1 1')
    const { pid } = await lab.observed(machine)
    expect(readFileSync(`/proc/${pid}/status`, 'latin1')).to.match(
      new RegExp(`^Cpus_allowed_list:\\t${online[1]}$`, 'm'),
    )
  })

  it('differ from the processors of the host, and memory, swap, uptime and load differ as well', async () => {
    const machine = await lab.started()
    const { memoryBytes, swapBytes } = machine.limits
    const [memory, swap] = inside(machine, "awk '/^(MemTotal|SwapTotal)/ { print $2 }' /proc/meminfo").split('\n')
    expect(Number(memory) * 1024).to.equal(memoryBytes)
    expect(Number(swap) * 1024).to.be.at.most(swapBytes)
    expect(inside(machine, 'free -m')).to.match(new RegExp(`^Mem: +${memoryBytes / mib} `, 'm'))
    const [own, host] = [inside(machine, 'cut -d. -f1 /proc/uptime'), readFileSync('/proc/uptime', 'latin1')]
    expect(Number(own)).to.be.below(60)
    expect(Number(host.split('.')[0])).to.be.above(Number(own))
    const tasks = Number(inside(machine, 'cut -d/ -f2 /proc/loadavg | cut -d" " -f1'))
    expect(tasks).to.be.within(1, 100)
  })
})

/** Unlike the tests above, these tests use the agent's operations and settings. */
describe('the assignment of processors to several guests', function () {
  const real = new RealDomain('gpr')
  const online = readOnlineCpus(undefined)
  const uuids: string[] = []

  before(async function () {
    if (online.length < 2) this.skip() // with one processor, guest and host look the same
    await real.open()
    for (const name of ['first', 'second', 'third', 'fourth'])
      uuids.push(await real.create(name, { limits: { ...plainSpec.limits!, vcpuMilli: 1000 } }))
  })
  after(() => real.close())

  const cpusOf = (uuid: string): number[] =>
    parseCpuList(real.inside(uuid, "sed -n 's/^Cpus_allowed_list:\\t//p' /proc/self/status"))
  const setVcpus = (uuid: string, vcpuMilli: number) =>
    setLimits(real.domain.context, { uuid, ifRevision: 0 }, { wanted: { vcpuMilli }, capacity: real.domain.capacity })
  /** Returns, for each online processor, how many of the guests `of` may use it. */
  const spread = (of: readonly string[]): number[] => {
    const all = of.flatMap((uuid) => cpusOf(uuid))
    return online.map((cpu) => all.filter((one) => one === cpu).length)
  }

  it('gives each guest as many processors as its limit, and uses all processors evenly', () => {
    for (const uuid of uuids) expect(cpusOf(uuid)).to.have.length(1)
    const counts = spread(uuids)
    expect(Math.max(...counts) - Math.min(...counts)).to.be.at.most(1)
  })

  it('changes with the limit of a running guest', async () => {
    await setVcpus(uuids[0]!, 1500)
    expect(cpusOf(uuids[0]!)).to.have.length(2)
    await setVcpus(uuids[0]!, 500)
    expect(cpusOf(uuids[0]!)).to.have.length(1)
  })

  it('stays the same when a guest or the agent restarts', async () => {
    const before = uuids.map(cpusOf)
    await real.done(powerOrder('restart', uuids[1]!).order)
    const { context } = real.domain
    const found = await context.machines.findDriver('lxc')!.readProcessors()
    const anew = new ProcessorPlaces(() => online)
    anew.adopt(found, context.store.list())
    expect(uuids.map(cpusOf)).to.deep.equal(before)
    expect(context.store.list().map((record) => anew.cpusOf(record))).to.deep.equal(before)
  })

  it('becomes even again when guests are deleted', async () => {
    const crowded = cpusOf(uuids[0]!)[0]
    const gone = uuids.filter((uuid) => cpusOf(uuid)[0] !== crowded)
    for (const uuid of gone) {
      await real.done(powerOrder('delete', uuid).order)
      uuids.splice(uuids.indexOf(uuid), 1)
    }
    expect(uuids.length).to.be.at.least(2)
    await real.domain.reconciler.pass()
    const counts = spread(uuids)
    expect(Math.max(...counts) - Math.min(...counts)).to.be.at.most(1)
  })
})
