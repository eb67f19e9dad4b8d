import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AgentProcess } from './agent-process.js'

/** `hold` waits until the fault is removed. */
export type Fault = 'fail' | 'hold' | 'kill'

/** An agent that a test can break at the methods that faulty-agent-main.ts names, for one guest each. */
export function createFaultyAgent(tag: string, overrides: Record<string, unknown> = {}): Promise<AgentProcess> {
  return AgentProcess.create(tag, overrides, 'test/support/host/faulty-agent-main.ts')
}

/** Replaces the former faults: `resize xab1`, by method and the guest's interface. */
export function setFaults({ directory }: AgentProcess, faults: Readonly<Record<string, Fault>>): void {
  const path = join(directory, 'faults.json')
  writeFileSync(`${path}.new`, JSON.stringify(faults))
  renameSync(`${path}.new`, path)
}
