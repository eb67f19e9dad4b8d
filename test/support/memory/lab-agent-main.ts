import { Command, InvalidArgumentError } from 'commander'
import { joinGateway } from '../../../agent/enrollment/join.js'
import { LabAgent } from './lab-agent.js'
import { RogueAgent } from '../attacks/rogue-agent.js'

/*
 * An agent without a host, as a separate process that a test can pause:
 * node --import=tsx test/support/memory/lab-agent-main.ts --identity DIR --join TOKEN --guests 5
 * When it serves, it prints {"address"}.
 */

function parseCount(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError('not a number')
  return Number(text)
}

interface Options {
  identity: string
  join: string
  guests: number
  listen?: string
  flood?: boolean
}

await new Command('lab-agent')
  .requiredOption('--identity <directory>', 'directory for the identity of the agent')
  .requiredOption('--join <token>', 'join token')
  .option('--guests <count>', 'number of guests at the start', parseCount, 0)
  .option('--listen <address>', 'host:port; default: a free port')
  .option('--flood', 'send changes without end, like a faulty agent')
  .action(async ({ identity: identityDir, join: token, guests, listen, flood }: Options) => {
    await joinGateway(token, identityDir)
    const address = listen === undefined ? {} : { listen }
    const agent = flood
      ? await RogueAgent.start(identityDir, { flood, ...address })
      : await LabAgent.start({ identityDir, stateDir: `${identityDir}-state`, ...address })
    if (agent instanceof LabAgent) agent.seed(guests)
    process.stdout.write(`${JSON.stringify({ address: agent.address })}\n`)
  })
  .parseAsync()
