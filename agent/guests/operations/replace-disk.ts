import { toBerthError } from '../../../shared/errors.js'
import type { Step, StepContext } from '../../operations/types.js'
import type { BootContext, DiskContext, GuestContext } from '../context.js'
import { mayRun } from '../policy/policy.js'
import type { GuestRecord } from '../record/record.js'
import { awaitSettled, takeHidden } from '../snapshots/snapshot-space.js'
import { bootSteps, ifPresent, stopStep, unlessSuspended, withGuest, type StopInput } from '../steps.js'
import { volumeLimitOf } from '../snapshots/volume-bound.js'
import type { GuestStore } from '../record/guest-store.js'

/*
 * This file contains the steps that replace a guest's volume with one from a template (reinstall) or a snapshot
 * (restore). The old disk is retained as a hidden snapshot until the new disk works. If a step fails before then, the
 * old disk is restored.
 */

/** Id of the hidden snapshot of the old disk. */
export function keptId(operationId: string): string {
  return `before-${operationId}`
}

/**
 * Returns all steps. Two of them come from the caller: `prepare` creates the new volume while the guest still runs.
 * `commit` deletes the hidden snapshot of the old disk at the end.
 */
export function replaceDiskSteps<Input extends StopInput>(
  context: GuestContext,
  around: { readonly prepare: Step<Input>; readonly commit: Step<Input> },
): Step<Input>[] {
  return [
    unlessSuspended(context, around.prepare),
    stopToBootAgain(context),
    keepStep(context),
    unlessSuspended(context, exchangeStep(context)),
    ...bootSteps(context).map((step) => ifItRuns(context.store, step)),
    around.commit,
  ]
}

/** Stops the guest. The undo starts it again if it was running. */
export function stopToBootAgain(context: BootContext): Step<StopInput> {
  return {
    ...stopStep(context),
    undo: ifPresent(context.store, (record, step) => bootAgain(context, record, step)),
  }
}

/** Deletes the hidden snapshot of the old disk. A failure is only logged, because `removeStrays` deletes it later. */
export async function forgetKept(
  context: DiskContext,
  { subject, operationId, log, signal }: StepContext<unknown>,
): Promise<void> {
  try {
    await context.volumes.deleteSnapshot(subject.id, keptId(operationId))
    await awaitSettled(context, subject.id, signal)
  } catch (err) {
    log.warn({ err }, 'could not remove the snapshot of the replaced disk')
  }
}

function keepStep(context: DiskContext): Step<unknown> {
  const { store, volumes } = context
  return {
    name: 'keep',
    run: async ({ subject: { id: uuid }, operationId }) =>
      void (await store.mutex.run(uuid, () => takeHidden(context, uuid, keptId(operationId)))),
    undo: async ({ subject, operationId }) => void (await volumes.deleteSnapshot(subject.id, keptId(operationId))),
  }
}

function exchangeStep(context: DiskContext): Step<unknown> {
  const { volumes } = context
  return {
    name: 'exchange',
    run: withGuest(context.store, async ({ uuid }) => void (await volumes.exchange(uuid))),
    undo: ifPresent(context.store, async (record, { operationId }) => {
      const kept = keptId(operationId)
      // `kept` is the hidden snapshot of the old disk. If it was deleted, the new disk works and must stay.
      const isKept = (await volumes.listSnapshots(record.uuid)).includes(kept)
      if (isKept) await volumes.restore(record.uuid, kept, volumeLimitOf(context.machines, record))
    }),
  }
}

/** Runs the step only if the guest should run and is allowed to run. A newly suspended guest stays stopped. */
export function ifItRuns(store: GuestStore, step: Step<unknown>): Step<unknown> {
  const run: Step<unknown>['run'] = async (at) => {
    if (mayRun(store.get(at.subject.id))) await step.run(at)
  }
  return { ...step, run }
}

/** Starts a guest again, because its stop is undone. After a failure, the reconciler starts it later. */
export async function bootAgain(context: BootContext, record: GuestRecord, step: StepContext<unknown>): Promise<void> {
  if (!mayRun(record)) return
  try {
    for (const boot of bootSteps(context)) await boot.run(step)
  } catch (error) {
    if (step.signal.aborted) throw error
    step.log.warn(
      { err: toBerthError(error, 'could not start the guest again') },
      'the former disk of the guest was restored, but the guest could not be started',
    )
  }
}
