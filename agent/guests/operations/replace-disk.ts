import { toBerthError } from '../../../shared/errors.js'
import type { Step, StepContext } from '../../operations/types.js'
import type { GuestContext } from '../context.js'
import { policyReasonOf } from '../policy.js'
import type { GuestRecord } from '../record.js'
import { bootSteps, ifPresent, stopStep, withGuest, type StopInput } from '../steps.js'
import { volumeLimitOf } from '../volume-bound.js'

/*
 * Another volume takes the place of a guest's: a template's (reinstall) or a snapshot's (restore). What the disk was is
 * kept as a snapshot that its owner does not see until the new one works; what fails before brings it back.
 */

/** Of what the disk was. */
export function keptId(operationId: string): string {
  return `before-${operationId}`
}

/**
 * @param around `prepare` makes the volume that `exchange` puts in place, while the guest runs on; `commit` is last, and
 * gives up what was kept
 */
export function replaceDiskSteps<Input extends StopInput>(
  context: GuestContext,
  around: { readonly prepare: Step<Input>; readonly commit: Step<Input> },
): Step<Input>[] {
  return [
    around.prepare,
    { ...stopStep(context), undo: ifPresent(context, (record, step) => bootAgain(context, record, step)) },
    keepStep(context),
    exchangeStep(context),
    ...bootSteps(context).map((step) => ifItRuns(context, step)),
    around.commit,
  ]
}

/** That it cannot be removed now fails nothing: the next operation that looks for strays removes it. */
export async function forgetKept(
  { volumes }: GuestContext,
  { subject, operationId, log }: StepContext<unknown>,
): Promise<void> {
  await volumes
    .deleteSnapshot(subject.id, keptId(operationId))
    .catch((err: unknown) => log.warn({ err }, 'remove what a disk was before'))
}

/** It is to run, and may: what blocks a guest in the middle fails nothing, it stays stopped. */
export function mayRun(record: GuestRecord): boolean {
  return record.wanted === 'running' && policyReasonOf(record) === ''
}

function keepStep({ volumes }: GuestContext): Step<unknown> {
  return {
    name: 'keep',
    run: async ({ subject, operationId }) => void (await volumes.snapshot(subject.id, keptId(operationId))),
    undo: async ({ subject, operationId }) =>
      void (await volumes.deleteSnapshot(subject.id, keptId(operationId))),
  }
}

function exchangeStep(context: GuestContext): Step<unknown> {
  const { volumes } = context
  return {
    name: 'exchange',
    run: withGuest(context, async ({ uuid }) => void (await volumes.exchange(uuid))),
    undo: ifPresent(context, async (record, { operationId }) => {
      const kept = keptId(operationId)
      const isKept = (await volumes.listSnapshots(record.uuid)).includes(kept) // not once the new disk has worked
      if (isKept) await volumes.restore(record.uuid, kept, volumeLimitOf(context, record))
    }),
  }
}

function ifItRuns(context: GuestContext, step: Step<unknown>): Step<unknown> {
  const run: Step<unknown>['run'] = async (at) => {
    if (mayRun(context.store.get(at.subject.id))) await step.run(at)
  }
  return { ...step, run }
}

/** The old disk is back; a guest that does not start with it now is started by the next comparison with the host. */
async function bootAgain(
  context: GuestContext,
  record: GuestRecord,
  step: StepContext<unknown>,
): Promise<void> {
  if (!mayRun(record)) return
  try {
    for (const boot of bootSteps(context)) await boot.run(step)
  } catch (error) {
    if (step.signal.aborted) throw error
    step.log.warn({ err: toBerthError(error, 'start the guest again') }, 'the old disk is back, not started')
  }
}
