import { readIndex } from '../../host/net/interfaces.js'
import { runInNetwork } from '../../host/net/network-namespace.js'
import { isSameProcess, type ProcessStat } from '../../host/process/proc.js'
import { run } from '../../host/process/process.js'
import type { MachineNic } from '../machine.js'
import { planConnect, unfinishedDevice } from './plan-connect.js'

/**
 * Creates the interface of a running guest again. The kernel deletes both ends of a veth pair if one end is deleted.
 * @returns true if the interface was missing
 * @throws {CommandError} for example if the guest's root has given the name to another interface
 */
export async function connectGuest(init: ProcessStat, nic: MachineNic): Promise<boolean> {
  if (readIndex(nic.device) !== undefined || !isSameProcess(init.pid, init.startTime)) return false
  const plan = planConnect(nic, init.pid)
  const unfinished = unfinishedDevice(nic.device)
  if (readIndex(unfinished) !== undefined) await runOnHost([`link delete dev ${unfinished}`])
  await runOnHost(plan.create)
  await runInNetwork(init.pid, ['-batch', '-'], { lines: plan.inside, harmless: /^$/ })
  await runOnHost([plan.join])
  return true
}

async function runOnHost(commands: readonly string[]): Promise<void> {
  await run('ip', ['-batch', '-'], { stdin: `${commands.join('\n')}\n` })
}
