import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AgentProcess } from './agent-process.js'

/** Effect of a fault. `hold` waits until the fault is removed. */
export type Fault = 'fail' | 'hold' | 'kill'

/** Creates an agent for `setFaults`, in which the methods of faulty-agent-main.ts can fail for single guests. */
export function createFaultyAgent(tag: string, overrides: Record<string, unknown> = {}): Promise<AgentProcess> {
  return AgentProcess.create(tag, overrides, 'test/support/host/faulty-agent-main.ts')
}

/** Replaces all faults. Each key is a method and the interface of a guest, such as `resize xab1`. */
export function setFaults({ directory }: AgentProcess, faults: Readonly<Record<string, Fault>>): void {
  const path = join(directory, 'faults.json')
  writeFileSync(`${path}.new`, JSON.stringify(faults))
  renameSync(`${path}.new`, path)
}
