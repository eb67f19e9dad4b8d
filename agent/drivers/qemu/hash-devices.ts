import { createHash } from 'node:crypto'
import type { Machine } from '../machine.js'
import { limitsOf, planCommand, type CommandFacts } from './plan-command.js'

/**
 * Returns a hash of all arguments that the guest's system depends on. Memory can only be sent to a QEMU with the same
 * hash. Names on the host, rates, and the version of the board (see `Arrival`) are excluded.
 */
export function hashDevices(machine: Machine, facts: CommandFacts): string {
  const { arrival: _arrival, ...same } = facts
  const rates = { ioReadBytesPerSec: 0, ioWriteBytesPerSec: 0, ioReadsPerSec: 0, ioWritesPerSec: 0 }
  const limits = { ...machine.limits, ...rates, ...(facts.arrival ? limitsOf(facts.arrival) : {}) }
  const command = planCommand({ ...machine, limits }, { ...same, name: 'any-1' })
  return createHash('sha256').update(JSON.stringify(command)).digest('hex')
}
