import { Command, InvalidArgumentError } from 'commander'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { BerthApi } from './berth-api.js'
import { benchFleet } from './fleet.js'
import { printFigures } from './figures.js'
import { benchHistory } from './history.js'
import { benchHttp } from './http.js'
import { benchIdle } from './idle.js'
import { benchLifecycle } from './lifecycle.js'
import { Lxd } from './lxd.js'
import { benchJournal } from './journal.js'
import { benchNetwork } from './network.js'
import { benchNetworkHttp } from './network-http.js'
import { benchRates } from './rates.js'
import { RawTools } from './raw-tools.js'
import { benchStorm } from './storm.js'

const parts = [
  'lifecycle',
  'storm',
  'http',
  'access',
  'network',
  'rates',
  'fleet',
  'journal',
  'history',
] as const
type Part = (typeof parts)[number]
const configDirectory = '/etc/berth-bench'

function parseParts(text: string): Part[] {
  const chosen = text.split(',')
  const unknown = chosen.find((name) => !(parts as readonly string[]).includes(name))
  if (unknown !== undefined)
    throw new InvalidArgumentError(`no part ${unknown}; there are ${parts.join(', ')}`)
  return chosen as Part[]
}

const options = new Command('bench')
  .option('--only <parts>', 'comma-separated', parseParts, [...parts])
  .option('--rounds <n>', 'rounds of each figure', Number, 15)
  .parse()
  .opts<{ only: Part[]; rounds: number }>()

const runs = (part: Part): boolean => options.only.includes(part)

/** Guests on the instance named bench. */
async function benchGuests(): Promise<void> {
  const [api, raw, lxd] = [new BerthApi(), new RawTools(), await Lxd.open()]
  try {
    if (runs('lifecycle')) printFigures('One guest', await benchLifecycle(api, raw, lxd, options.rounds))
    if (runs('storm')) printFigures('A hundred guests', await benchStorm(api, lxd, readStormOptions()))
  } finally {
    raw.close()
    await lxd?.close()
    await api.close()
  }
}

function readStormOptions(): Parameters<typeof benchStorm>[2] {
  const agent = parse(readFileSync(`${configDirectory}/agent.yaml`, 'utf8')) as {
    state_dir: string
    network: { interface_prefix: string }
  }
  return {
    lxcPath: join(agent.state_dir, 'lxc'),
    lxcName: (id: number) => `${agent.network.interface_prefix}-${id}`,
    whileIdle: () =>
      benchIdle({ agent: '/run/berth-bench/agent.pid', gateway: '/run/berth-bench/gateway.pid' }, 100),
  }
}

/** The agent's network on simulated hosts; then the whole of it, where there is an instance. */
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
    await api.close()
  }
}

if (runs('lifecycle') || runs('storm')) await benchGuests()
if (runs('http')) printFigures('HTTP', await benchHttp())
if (runs('access')) await import('./access.js')
if (runs('network')) await benchNetworks()
if (runs('fleet')) await benchFleet()
if (runs('journal')) {
  const api = new BerthApi()
  const figures = await benchJournal(api, { instance: 'bench', guestCounts: [100, 1000], rounds: 5 })
  printFigures('Guests in an agent’s journal', figures)
  await api.close()
}
if (runs('history')) printFigures('History', await benchHistory({ guests: 1000, hours: 3 }))
if (runs('rates')) printFigures('Rates', await benchRates(options.rounds))
