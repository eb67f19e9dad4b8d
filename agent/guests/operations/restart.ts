import type { OperationKind } from '../../operations/orders.js'
import type { BootContext } from '../context.js'
import { allowOrLift } from '../policy/policy.js'
import { bootSteps, stopStep, unlessSuspended, type StopInput } from '../steps.js'
import { acceptForGuest, refuseBroken } from './guest-order.js'
import { mark, settleStart } from './outcomes.js'

/** Restarts a guest. A stopped guest is only started. */
export function restartKind(context: BootContext): OperationKind<'restart', StopInput> {
  return {
    action: 'restart',
    accept: ({ uuid, force, liftBlock }, asked) =>
      acceptForGuest(context.store, asked, {
        uuid,
        input: { force },
        check: (record) => {
          refuseBroken(record)
          allowOrLift(context.store, record, liftBlock)
        },
      }),
    begin: mark(context.store, 'restarting', 'running'),
    steps: [unlessSuspended(context, stopStep(context)), ...bootSteps(context)],
    settle: ({ subject }, outcome) => settleStart(context.store, subject.id, { outcome, keepWanted: true }),
  }
}
