import { Command, InvalidArgumentError } from 'commander'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { BerthApi } from './berth-api.js'
import { printFigures } from './figures.js'
import { benchHttp } from './http.js'
import { benchIdle } from './idle.js'
import { benchLifecycle } from './lifecycle.js'
import { Lxd } from './lxd.js'
import { RawTools } from './raw-tools.js'
import { benchStorm } from './storm.js'

const parts = ['lifecycle', 'storm', 'http', 'access'] as const
type Part = (typeof parts)[number]

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

const agent = parse(readFileSync('/etc/berth-bench/agent.yaml', 'utf8')) as {
  state_dir: string
  network: { interface_prefix: string }
}
const stormOptions = {
  lxcPath: join(agent.state_dir, 'lxc'),
  lxcName: (id: number) => `${agent.network.interface_prefix}-${id}`,
  whileIdle: () =>
    benchIdle({ agent: '/run/berth-bench/agent.pid', gateway: '/run/berth-bench/gateway.pid' }, 100),
}

const api = new BerthApi()
const needsLxd = options.only.some((part) => part === 'lifecycle' || part === 'storm')
const lxd = needsLxd ? await Lxd.open() : undefined
const raw = new RawTools()
try {
  if (options.only.includes('lifecycle'))
    printFigures('One guest', await benchLifecycle(api, raw, lxd, options.rounds))
  if (options.only.includes('storm'))
    printFigures('A hundred guests', await benchStorm(api, lxd, stormOptions))
  if (options.only.includes('http')) printFigures('HTTP', await benchHttp())
  if (options.only.includes('access')) await import('./access.js')
} finally {
  raw.close()
  await lxd?.close()
  await api.close()
}
