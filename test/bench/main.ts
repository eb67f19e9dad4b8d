import { Command, InvalidArgumentError } from 'commander'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { benchAttacks } from './attacks.js'
import { BerthApi } from './berth-api.js'
import { benchCli } from './cli.js'
import { benchConsoles } from './consoles.js'
import { benchFailover } from './failover.js'
import { runFailoverLab } from './failover-lab.js'
import { benchFleet } from './fleet.js'
import { printFigures } from './figures.js'
import { benchHistory } from './history.js'
import { benchHttp } from './http.js'
import { benchIdle } from './idle.js'
import { benchDisk } from './disk.js'
import { benchKvm, kvmSections, type KvmSection } from './kvm.js'
import { benchLife } from './life.js'
import { benchLifecycle } from './lifecycle.js'
import { Lxd } from './lxd.js'
import { benchJournal } from './journal.js'
import { benchMoves } from './moves.js'
import { benchPartitions } from './partitions.js'
import { benchNetwork } from './network.js'
import { benchNetworkHttp } from './network-http.js'
import { benchEvents } from './events.js'
import { benchAbuse } from './abuse.js'
import { benchPackages } from './packages.js'
import { benchRates } from './rates.js'
import { benchReach } from './reach.js'
import { RawTools } from './raw-tools.js'
import { benchStorm, type StormOptions } from './storm.js'

const parts = [
  'lifecycle',
  'life',
  'storm',
  'disk',
  'http',
  'access',
  'attacks',
  'network',
  'rates',
  'fleet',
  'journal',
  'history',
  'abuse',
  'events',
  'kvm',
  ...kvmSections,
  'consoles',
  'cli',
  'packages',
  'failover',
  'moves',
  'partitions',
] as const
type Part = (typeof parts)[number]
const configDirectory = '/etc/berth-bench'

function parseParts(text: string): Part[] {
  const chosen = text.split(',')
  const unknown = chosen.find((name) => !(parts as readonly string[]).includes(name))
  if (unknown !== undefined) throw new InvalidArgumentError(`no part ${unknown}; there are ${parts.join(', ')}`)
  return chosen as Part[]
}

const options = new Command('bench')
  .option('--only <parts>', 'comma-separated', parseParts, [...parts])
  .option('--rounds <n>', 'rounds of each figure', Number, 15)
  .option('--batch <n>', 'guests of a batch', Number, 50)
  .option('--minutes <n>', 'duration of the failover laboratory', Number, 10)
  .option('--seed <n>', 'seed of its faults; default: a random one', Number)
  .parse()
  .opts<{ only: Part[]; rounds: number; batch: number; minutes: number; seed?: number }>()

const runs = (part: Part): boolean => options.only.includes(part)

/** Measures guests of the instance named bench. */
async function benchGuests(): Promise<void> {
  const [api, raw, lxd] = [new BerthApi(), new RawTools(), await Lxd.open()]
  try {
    if (runs('lifecycle')) printFigures('One guest', await benchLifecycle(api, raw, lxd, options.rounds))
    if (runs('life')) printFigures('A guest’s life', await benchLife(api, raw, lxd, options))
    if (runs('disk')) printFigures('Disks of guests', await benchDisk(api, readStormOptions(), options.rounds))
    if (runs('storm')) printFigures('A hundred guests', await benchStorm(api, raw, lxd, readStormOptions()))
  } finally {
    raw.close()
    await lxd?.close()
    api.close()
  }
}

/** Measures virtual machines, in the sections that were requested. `kvm` requests all of these sections. */
async function benchMachines(): Promise<void> {
  const chosen: readonly KvmSection[] = kvmSections.filter((section) => runs('kvm') || runs(section))
  if (chosen.length > 0) await benchKvm(chosen, options.rounds)
}

function readStormOptions(): StormOptions {
  const agent = parse(readFileSync(`${configDirectory}/agent.yaml`, 'utf8')) as {
    state_dir: string
    network: { interface_prefix: string }
  }
  return {
    lxcPath: join(agent.state_dir, 'lxc'),
    lxcName: (id: number) => `${agent.network.interface_prefix}-${id}`,
    whileIdle: () => benchIdle({ agent: '/run/berth-bench/agent.pid', gateway: '/run/berth-bench/gateway.pid' }, 100),
  }
}

/** Measures the agent's network on simulated hosts, and then the complete path if there is an instance named bench. */
async function benchNetworks(): Promise<void> {
  printFigures('Network: at the agent', await benchNetwork(options.rounds))
  if (!existsSync(`${configDirectory}/gateway.yaml`)) {
    console.log('\nNetwork through HTTP: skipped, there is no instance named bench')
    return
  }
  const api = new BerthApi(configDirectory)
  try {
    const figures = await benchNetworkHttp(api, options.rounds)
    if (figures) printFigures('Network: through HTTP', figures)
    else console.log('\nNetwork through HTTP: skipped, the instance answers 404 to port mappings')
  } finally {
    api.close()
  }
}

if ((['lifecycle', 'life', 'storm', 'disk'] as const).some(runs)) await benchGuests()
if (runs('http')) printFigures('HTTP', await benchHttp())
if (runs('access')) {
  printFigures('Changes of access rights', await benchReach())
  await import('./access.js')
}
if (runs('attacks')) await benchAttacks()
if (runs('network')) await benchNetworks()
if (runs('fleet')) await benchFleet()
if (runs('journal')) {
  const api = new BerthApi()
  const figures = await benchJournal(api, { instance: 'bench', guestCounts: [100, 1000], rounds: 5 })
  printFigures('Guests in an agent’s journal', figures)
  api.close()
}
await benchMachines()
if (runs('history')) printFigures('History', await benchHistory({ guests: 1000, hours: 3 }))
if (runs('abuse')) printFigures('Abuse', await benchAbuse({ guests: 1000, flows: 100_000 }))
if (runs('events')) await benchEvents({ listeners: 500, slow: 5, changesPerSecond: 1000, seconds: 45 })
if (runs('consoles')) printFigures('Consoles', await benchConsoles({ keys: 5000, megabytes: 50, frames: 50 }))
if (runs('cli')) printFigures('Command line', await benchCli(options.rounds))
if (runs('packages')) printFigures('Packages', await benchPackages())
if (runs('failover')) {
  printFigures('Failover of Redis', await benchFailover({ rounds: 5, seconds: 20 }))
  runFailoverLab(options)
}
if (runs('moves')) printFigures('Moves', await benchMoves(Math.min(5, options.rounds)))
if (runs('partitions')) await benchPartitions({ ...options, count: 200 })
if (runs('rates')) printFigures('Rates', await benchRates(options.rounds))
