import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { deviceName } from '../../agent/network/addresses/private-ipv4.js'
import { NetworkLab } from '../support/network/network-lab.js'
import { scratchDirectory } from '../support/scratch.js'
import type { Figure } from './figures.js'
import { rowsOf, type Scenario, type Times } from './network-plan.js'
import type { RoundsOrder } from './network-rounds.js'

const rounds = fileURLToPath(new URL('network-rounds.ts', import.meta.url))
/** Prefix of all names. After a kill of this process, the cleanup of the tests removes everything with this prefix. */
const prefix = 'btestbench'

const scenarios: readonly Scenario[] = [
  { name: '10 on the host', guests: 11, mappings: 10, ownMappings: 1, rules: 0 },
  { name: '10,000 on the host', guests: 11, mappings: 10_000, ownMappings: 1, rules: 0 },
  { name: '10,000 on the host, 999 its own', guests: 11, mappings: 10_000, ownMappings: 999, rules: 0 },
  { name: '10 guests with 50 rules each', guests: 10, mappings: 10, ownMappings: 1, rules: 50 },
  { name: '1,000 guests with 50 rules each', guests: 1000, mappings: 1000, ownMappings: 1, rules: 50 },
]

/**
 * Measures changes of a port mapping or a firewall at the agent, from the request until they are journaled and in
 * effect. The comparison is nft(8) by hand in the agent's tables. Guests are simulated in a network namespace.
 */
export async function benchNetwork(count: number): Promise<Figure[]> {
  const nat_ports = { start: 20_000, end: 59_999, per_guest: 4000 }
  const lab = new NetworkLab(prefix, { subnet: '10.77.0.0/16', nat_ports })
  const remove = (): void => {
    lab.remove()
    scratchDirectory(prefix).wipe()
  }
  const stop = (): never => (remove(), process.exit(130))
  process.once('SIGINT', stop).once('SIGTERM', stop)
  try {
    const figures: Figure[] = []
    for (const scenario of scenarios) figures.push(...(await measure(lab, scenario, count)))
    return figures
  } finally {
    remove()
    process.off('SIGINT', stop).off('SIGTERM', stop)
  }
}

async function measure(lab: NetworkLab, scenario: Scenario, count: number): Promise<Figure[]> {
  lab.build()
  addInterfaces(lab, scenario.guests)
  const order: RoundsOrder = { network: lab.config, scenario, rounds: count, scratch: prefix }
  const script = [process.execPath, '--import', 'tsx', rounds, JSON.stringify(order)]
  const child = spawn('ip', ['netns', 'exec', lab.host, ...script], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
  if (code !== 0) throw new Error(`${scenario.name}: the measuring process ended with ${code}`)
  return rowsOf(scenario.name, JSON.parse(output) as Times)
}

/** Adds an interface for each guest, because the agent's query for the host's addresses reads all interfaces. */
function addInterfaces({ host, client, config }: NetworkLab, guests: number): void {
  const lines = Array.from({ length: guests }, (_, i) => {
    const device = deviceName(config.interface_prefix, i + 1)
    return `link add ${device} up type veth peer name ${device} netns ${client}\n`
  })
  execFileSync('ip', ['-n', host, '-batch', '-'], { input: lines.join('') })
}
