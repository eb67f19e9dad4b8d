import { LabAgents, type LabAgentOrder } from './lab-agents.js'

/*
 * Agents in memory as one process with an IPC channel. Its first message describes the agents. It sends `serving` when all of them serve.
 * For each further message, it sends the reports of the agents. It ends when the channel is closed.
 */

let agents: LabAgents | undefined
process.on('message', (message) => void answer(message))
process.on('disconnect', () => void agents?.destroy().then(() => process.exit(0)))

async function answer(message: unknown): Promise<void> {
  if (agents) return void process.send?.(agents.report())
  agents = await LabAgents.start(message as LabAgentOrder[])
  process.send?.('serving')
}
