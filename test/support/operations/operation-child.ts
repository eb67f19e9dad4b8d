import { pino } from 'pino'
import { OperationEngine } from '../../../agent/operations/engine.js'
import type { StepEvent } from '../../../agent/operations/types.js'
import { createFileDefinition, deleteFileDefinition, openFileWorld, reserveGuest } from './file-operations.js'

/*
 * A process that executes operations in a directory, and records them in an agent's journal. It ends when all
 * operations have ended, or when it kills itself: operation-child.ts DIRECTORY ORDERS-JSON
 */

export interface ChildOrders {
  /** Operations that the process submits, unless the journal already contains them. */
  submit: { id: string; action: 'create' | 'delete'; guestUuid: string }[]
  fail?: Pick<StepEvent, 'step' | 'phase'>
  kill?: Pick<StepEvent, 'step' | 'phase'>
}

const [directory = '', text = ''] = process.argv.slice(2)
const orders = JSON.parse(text) as ChildOrders
const world = openFileWorld(directory)

function matches(event: StepEvent, at: ChildOrders['fail']): boolean {
  return event.step === at?.step && event.phase === at.phase
}

const engine = new OperationEngine({
  changes: world.changes,
  definitions: [createFileDefinition(world), deleteFileDefinition(world)],
  parallel: 4,
  log: pino({ level: 'silent' }),
  retry: { firstMs: 1, maxMs: 10, undoAttempts: 3 },
  observer: (event) => {
    if (matches(event, orders.kill)) process.kill(process.pid, 'SIGKILL')
    if (matches(event, orders.fail)) throw new Error('injected failure')
  },
})
engine.recover()
process.stdout.write('recovered\n')
for (const { id, action, guestUuid } of orders.submit) {
  engine.submit({
    id,
    action,
    subject: { kind: 'guest', id: guestUuid, name: guestUuid, number: 1 },
    input: {},
    requestedBy: 'test',
    ...(action === 'create' && { reserve: () => reserveGuest(world, guestUuid) }),
  })
  process.stdout.write(`accepted ${id}\n`)
}
await Promise.all(orders.submit.map(({ id }) => engine.wait(id)))
process.stdout.write('ended\n')
