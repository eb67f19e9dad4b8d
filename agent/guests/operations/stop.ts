import type { DefinedOperation, Step } from '../../operations/types.js'
import type { OperationKind } from '../../operations/orders.js'
import type { GuestContext } from '../context.js'
import { isAllowedToRun } from '../policy/policy.js'
import type { GuestRecord } from '../record/record.js'
import { stopStep, type StopInput } from '../steps.js'
import { acceptForGuest, refuseBroken } from './guest-order.js'
import { mark, settled } from './outcomes.js'
import type { GuestStore } from '../record/guest-store.js'

interface PowerOffInput extends StopInput {
  /** True if the agent itself stops the guest because the guest is suspended. */
  system?: boolean
}

export function stopKind(context: Pick<GuestContext, 'store' | 'machines'>): OperationKind<'stop', PowerOffInput> {
  const { store } = context
  return {
    action: 'stop',
    accept: ({ uuid, force }, asked) => {
      const input = { force, ...(asked.isSystem ? { system: true } : {}) }
      const check = (record: GuestRecord): void => {
        refuseBroken(record)
        if (!asked.isSystem) forgetResume(store, record)
      }
      return acceptForGuest(store, asked, { uuid, input, check })
    },
    begin: (operation) => {
      if (isDue(store, operation)) mark(store, 'stopping', 'stopped')(operation)
    },
    steps: [ifDue(store, stopStep(context))],
    settle: ({ subject }, outcome) => {
      if (store.find(subject.id)?.status !== 'stopping') return // the operation has not begun to stop the guest
      if (outcome.status === 'done') settled(store, subject.id, 'stopped')
      // The guest was not stopped. The reconciler finds its real state later.
      else if (outcome.status === 'failed') settled(store, subject.id, 'running', outcome.message)
    },
  }
}

/** Forgets that the guest ran before its suspension, because a user has stopped it. Joins the caller's transaction. */
function forgetResume(store: GuestStore, { uuid, suspension }: GuestRecord): void {
  if (suspension?.resumes) store.update(uuid, { suspension: { ...suspension, resumes: false } })
}

type Due = Pick<DefinedOperation<PowerOffInput>, 'subject' | 'input'>

/** False if the agent itself requested the stop of a suspended guest, and the suspension has ended in the meantime. */
function isDue(store: GuestStore, { subject, input }: Due): boolean {
  return input.system !== true || !isAllowedToRun(store.get(subject.id))
}

function ifDue(store: GuestStore, step: Step<StopInput>): Step<PowerOffInput> {
  return {
    ...step,
    run: async (at) => {
      if (isDue(store, at)) await step.run(at)
    },
  }
}
