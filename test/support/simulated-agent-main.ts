import { Command, InvalidArgumentError } from 'commander'
import { findIdentity } from '../../agent/enrollment/identity.js'
import { joinGateway } from '../../agent/enrollment/join.js'
import { rogueWatch } from './rogue-agent.js'
import { SimulatedAgent } from './simulated-agent.js'
import { SimulatedHost } from './simulated-host.js'

/*
 * A simulated agent as a process of its own, for benchmarks:
 *   node --import=tsx test/support/simulated-agent-main.ts --identity DIR [--join TOKEN] --listen 127.0.0.1:7500 --guests 1000
 * Prints {"address","host_id"} once it serves; ends with SIGTERM.
 */

function parseCount(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError('not a number')
  return Number(text)
}

interface Options {
  identity: string
  join?: string
  listen: string
  guests: number
  firstId: number
  operationMs: number
  flood?: boolean
}

const command = new Command('simulated-agent')
  .requiredOption('--identity <directory>', 'identity, as berth-agent join leaves it')
  .option('--join <token>', 'join first')
  .option('--listen <address>', 'host:port', '127.0.0.1:0')
  .option('--guests <count>', 'guests there at the start', parseCount, 0)
  .option('--first-id <id>', 'id of the first of them', parseCount, 1)
  .option('--operation-ms <ms>', 'how long an operation runs', parseCount, 20)
  .option('--flood', 'send changes without end')
  .action(async (options: Options) => {
    if (options.join !== undefined) await joinGateway(options.join, options.identity)
    const identity = findIdentity(options.identity)
    if (!identity) throw new Error('no identity: give --join TOKEN')
    const host = new SimulatedHost(identity.hostId)
    host.seed(options.guests, options.firstId)
    const { listen, operationMs } = options
    const rogue = options.flood ? { watch: rogueWatch([], { flood: true }) } : {}
    const agent = await SimulatedAgent.start({
      ...{ identityDir: options.identity, host, listen, operationMs },
      ...rogue,
    })
    process.stdout.write(`${JSON.stringify({ address: agent.address, host_id: identity.hostId })}\n`)
    process.once('SIGTERM', () => {
      agent.stop()
      process.exit(0)
    })
  })

await command.parseAsync()
