import { LabAgents, type LabAgentOrder } from './lab-agents.js'

/*
 * A process with agents in memory and an IPC channel. The first message to it describes the agents. It sends `serving`
 * when all of them serve, and the agents' reports after each further message. It ends when the channel is closed.
 */

let agents: LabAgents | undefined
process.on('message', (message) => void answer(message))
process.on('disconnect', () => void agents?.destroy().then(() => process.exit(0)))

async function answer(message: unknown): Promise<void> {
  if (agents) return void process.send?.(agents.report())
  agents = await LabAgents.start(message as LabAgentOrder[])
  process.send?.('serving')
}
