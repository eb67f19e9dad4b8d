import type { OperationKind } from '../../operations/orders.js'
import type { GuestContext } from '../context.js'
import { stopStep, type StopInput } from '../steps.js'
import { acceptForGuest, refuseBroken } from './guest-order.js'
import { mark, settled } from './outcomes.js'

export function stopKind(context: GuestContext): OperationKind<'stop', StopInput> {
  return {
    action: 'stop',
    accept: ({ uuid, force }, asked) =>
      acceptForGuest(context, asked, { uuid, input: { force }, check: refuseBroken }),
    begin: mark(context, 'stopping', 'stopped'),
    steps: [stopStep(context)],
    settle: ({ subject }, outcome) => {
      if (outcome.status === 'done') settled(context, subject.id, 'stopped')
      // The guest was not stopped: the next comparison with the host finds its real state.
      else if (outcome.status === 'failed') settled(context, subject.id, 'running', outcome.message)
    },
  }
}
