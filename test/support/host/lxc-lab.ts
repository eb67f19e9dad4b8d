import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import type { StopCause } from '../../../agent/drivers/contract.js'
import type { Machine } from '../../../agent/drivers/machine.js'
import { readCgroupLayout } from '../../../agent/host/process/cgroup.js'
import { openLxcHost, type LxcHost, type LxcHostOptions } from './lxc-host.js'
import { waitFor } from '../wait.js'

/** A host that the tests of a suite share. After each test, the guests are deleted and must leave no trace. */
export interface LxcLab {
  readonly host: LxcHost
  /** The driver's reports about guests that ended by themselves, in the current test. */
  readonly ends: { uuid: string; cause: StopCause }[]
  /** Creates a guest with disk and configuration, but does not start it. */
  readonly prepared: (change?: Partial<Machine>) => Promise<Machine>
  readonly started: (change?: Partial<Machine>) => Promise<Machine>
  /** Returns the guest's first process. @throws if the guest does not run */
  readonly observed: (machine: Machine) => Promise<{ pid: number; startTime: number }>
  /** Resolves when the guest's systemd has finished booting. */
  readonly booted: (machine: Machine) => Promise<void>
  /** Returns the state that the guest's systemd reports. */
  readonly systemState: (machine: Machine) => string
  /** Returns the arguments for lxc-attach. */
  readonly attach: (machine: Machine, ...command: string[]) => string[]
  /** Returns the remains of the test's guests on the host, found without the driver's code. */
  readonly traces: () => string[]
}

/** Opens a host for the suite that calls this function, and adds hooks to the suite. */
export function useLxcHost(options: LxcHostOptions): LxcLab {
  let host: LxcHost
  const machines: Machine[] = []
  const ends: LxcLab['ends'] = []

  const traces = (): string[] => tracesOf(host, options)

  before(async () => {
    host = await openLxcHost(options)
    host.driver.onStopped((uuid, cause) => ends.push({ uuid, cause }))
  })
  after(() => host?.close())
  beforeEach(() => ends.splice(0))
  afterEach(async () => {
    for (const machine of machines.splice(0)) {
      await host.driver.kill(machine)
      await host.driver.delete(machine)
      host.removeVolume(machine)
    }
    await waitFor(() => traces().length === 0, { what: () => `no traces, there are ${traces().join(' ')}` })
  })

  const prepared = async (change?: Partial<Machine>): Promise<Machine> => {
    const machine = host.machine(change)
    machines.push(machine)
    host.clone(machine)
    await host.driver.configure(machine)
    return machine
  }
  const attach = (machine: Machine, ...command: string[]): string[] => [
    '-P',
    `${host.path}/state/lxc`,
    '-n',
    `${options.prefix}-${machine.id}`,
    '--clear-env',
    '--',
    ...command,
  ]
  const systemState = (machine: Machine): string => {
    const command = attach(machine, 'systemctl', 'is-system-running')
    return spawnSync('lxc-attach', command, { encoding: 'utf8' }).stdout.trim()
  }
  return {
    get host() {
      return host
    },
    ends,
    prepared,
    attach,
    systemState,
    traces,
    started: async (change) => {
      const machine = await prepared(change)
      await host.driver.start(machine, new AbortController().signal)
      return machine
    },
    observed: async (machine) => {
      const found = (await host.driver.observe()).find(({ uuid }) => uuid === machine.uuid)
      if (found?.pid === undefined || found.startTime === undefined) throw new Error('the guest does not run')
      return { pid: found.pid, startTime: found.startTime }
    },
    booted: async (machine) => {
      await waitFor(() => ['running', 'degraded'].includes(systemState(machine)), {
        intervalMs: 100,
        what: () => `systemd to come up, it says ${systemState(machine)}`,
      })
    },
  }
}

function tracesOf(host: LxcHost, { name, prefix }: LxcHostOptions): string[] {
  const matches = (text: string, pattern: string, flags = 'g'): string[] => text.match(new RegExp(pattern, flags)) ?? []
  const groups = readCgroupLayout()
    .hierarchies.flatMap((path) => readdirSync(path).map((group) => `${path}/${group}`))
    .filter((path) => new RegExp(`lxc\\.(payload|monitor)\\.${prefix}-`).test(path))
  const processes = execFileSync('ps', ['-eo', 'stat,args']).toString()
  const locks = `/run/lxc/lock${host.path}/state/lxc`
  const state = ['state/lxc', 'run/lxc-stopped', 'pool/guests']
  return [
    ...groups,
    ...readdirSync('/sys/class/net').filter((device) => new RegExp(`^${prefix}\\d`).test(device)),
    ...matches(readFileSync('/proc/net/unix', 'latin1'), `@\\S*${name}\\S*`),
    ...matches(readFileSync('/proc/self/mountinfo', 'latin1'), `${name}/pool/guests`),
    ...matches(processes, `^[^Z].*lxc monitor\\] /var/tmp/${name}.*$`, 'gm'),
    ...(existsSync(locks) ? readdirSync(locks) : []),
    ...state.flatMap((path) => readdirSync(`${host.path}/${path}`)),
  ]
}
