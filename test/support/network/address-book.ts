import { execFileSync, spawn } from 'node:child_process'
import type { GuestNetwork } from '../../../agent/network/contract.js'
import { AgentNetwork, type NetworkLab } from './network-lab.js'
import { nodeArguments } from '../programs.js'

/**
 * Starts the part of an agent that manages address pools, inside the lab's host. It ends with the lab.
 * @param stateDir directory for the record of the host's original settings; if it is empty, nothing is recorded
 */
export function openAddressBook(lab: NetworkLab, stateDir = ''): AgentNetwork {
  const source = 'test/support/network/addresses-main.ts'
  const script = nodeArguments(source, JSON.stringify(lab.config), stateDir)
  const child = spawn('ip', ['netns', 'exec', lab.host, process.execPath, ...script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  return new AgentNetwork(child)
}

/** Adds a guest that answers at tcp 22 and udp 53, and registers it as running. */
export async function runGuest(lab: NetworkLab, book: AgentNetwork, guest: GuestNetwork): Promise<void> {
  lab.plug(guest)
  await lab.serve(lab.namespaceOf(guest), guest.device, 'tcp:22', 'udp:53')
  const [pid] = execFileSync('ip', ['netns', 'pids', lab.namespaceOf(guest)])
    .toString()
    .split('\n')
  await book.call('run', { uuid: guest.uuid, pid: Number(pid) })
}
