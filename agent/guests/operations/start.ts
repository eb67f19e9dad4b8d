import type { OperationKind } from '../../operations/orders.js'
import type { BootContext } from '../context.js'
import { allowOrLift, checkAllowedToRun } from '../policy/policy.js'
import { configureStep, startStep, unlessSuspended } from '../steps.js'
import { acceptForGuest, refuseBroken } from './guest-order.js'
import { mark, settleStart } from './outcomes.js'

interface StartInput {
  force: boolean
  /** True if the agent itself submitted the start. If such a start fails, the desired state does not change. */
  system?: boolean
}

export function startKind(context: BootContext): OperationKind<'start', StartInput> {
  return {
    action: 'start',
    accept: ({ uuid, liftBlock }, asked) =>
      acceptForGuest(context.store, asked, {
        uuid,
        input: { force: false, ...(asked.isSystem ? { system: true } : {}) },
        check: (record) => {
          refuseBroken(record)
          if (asked.isSystem) checkAllowedToRun(record)
          else allowOrLift(context.store, record, liftBlock)
        },
      }),
    begin: mark(context.store, 'starting', 'running'),
    steps: [
      unlessSuspended<StartInput>(context, configureStep(context, { undo: false }), ({ system = false }) => system),
      startStep(context),
    ],
    settle: ({ subject, input }, outcome) =>
      settleStart(context.store, subject.id, { outcome, keepWanted: input.system ?? false }),
  }
}
