import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { machineApi } from '../support/host/machine-api.js'
import { SystemdMachine } from '../support/host/systemd-machine.js'
import { Repository } from '../support/packages/repository.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'
import { figure, median, type Figure } from './figures.js'

const names = ['berth-agent', 'berth-gateway', 'berth-runtime', 'berth-repository']
const settleMs = 60_000
const samples = 15
const sampleMs = 2000

/** Measures the packages on a machine with systemd: their size, and the memory of the idle services without guests. */
export async function benchPackages(): Promise<Figure[]> {
  const scratch = scratchDirectory('btest-bench-packages')
  const repository = new Repository(scratch.path)
  repository.publish('0.9.0')
  const machine = await SystemdMachine.create('btest-bench-machine', { hasCheckout: false })
  try {
    await machine.start()
    repository.addTo(machine)
    machine.run('apt-get', 'install', '-y', 'berth', 'berth-repository')
    const api = machineApi((...words) => machine.run(...words))
    await waitFor(() => api.tryAsk<{ status: string }[]>('/hosts')?.[0]?.status === 'online', { what: 'the host' })
    return [...sizes(repository, machine), ...(await idleMemory(machine))]
  } finally {
    machine.destroy()
    scratch.wipe()
  }
}

function sizes(repository: Repository, machine: SystemdMachine): Figure[] {
  const pool = join(repository.path, 'pool')
  return names.flatMap((name) => {
    const file = readdirSync(pool).find((each) => each.startsWith(`${name}_`))!
    const installedKb = Number(machine.run('dpkg-query', '-W', '-f', '${Installed-Size}', name))
    return [
      figure(`${name}: package`, 'MB', { Berth: statSync(join(pool, file)).size / 1e6 }),
      figure(`${name}: installed`, 'MB', { Berth: (installedKb * 1024) / 1e6 }),
    ]
  })
}

/** Measures resident memory. Memory that a tool shares with other processes is divided among them (PSS). */
async function idleMemory(machine: SystemdMachine): Promise<Figure[]> {
  const node = '/usr/lib/berth/runtime/node'
  machine.run('systemd-run', '--unit=bare-node', node, '-e', 'setInterval(() => {}, 1e6)')
  await delay(settleMs)
  const measured = new Map(['berth-agent', 'berth-gateway', 'bare-node'].map((unit) => [unit, [] as Memory[]]))
  for (let n = 0; n < samples; n++, await delay(sampleMs))
    for (const [unit, list] of measured) list.push(readMemory(machine, unit))
  return [...measured].flatMap(([unit, list]) => [
    figure(`${unit}: resident memory, idle`, 'MB', { Berth: median(list.map(({ own }) => own)) }),
    figure('the same with its tools', 'MB', { Berth: median(list.map(({ own, tools }) => own + tools)) }),
  ])
}

interface Memory {
  readonly own: number
  readonly tools: number
}

/** Returns the memory of a service's main process and of its children in MB. */
function readMemory(machine: SystemdMachine, unit: string): Memory {
  const script = `pid=$(systemctl show -P MainPID ${unit})
    sed -n 's/^VmRSS:/own/p' "/proc/$pid/status"
    for child in $(cat "/proc/$pid/task/$pid/children"); do sed -n 's/^Pss:/tool/p' "/proc/$child/smaps_rollup"; done`
  const lines = machine.run('sh', '-c', script).trim().split('\n')
  const sumOf = (kind: string): number =>
    lines
      .filter((line) => line.startsWith(kind))
      .reduce((sum, line) => sum + (Number(/(\d+) kB/.exec(line)?.[1]) * 1024) / 1e6, 0)
  return { own: sumOf('own'), tools: sumOf('tool') }
}
