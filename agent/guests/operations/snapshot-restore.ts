import type { OperationKind } from '../../operations/orders.js'
import type { DefinedOperation, OperationOutcome, Step, StepContext } from '../../operations/types.js'
import { driverOf, type GuestContext } from '../context.js'
import { policyReasonOf } from '../policy.js'
import type { GuestRecord } from '../record.js'
import { getReadySnapshot } from '../snapshots.js'
import { bootSteps, stopStep } from '../steps.js'
import { acceptForGuest, refuseBroken } from './guest-order.js'
import { mark, settled } from './outcomes.js'

interface RestoreInput {
  snapshotId: string
  /** What it would write while it shuts down is given up: its power is cut. */
  force: true
}

type RestoreStep = Step<RestoreInput>

/**
 * What can fail without the guest is done while it runs. What its disk was is kept until the restored one works:
 * docs/decisions/0170.
 */
export function snapshotRestoreKind(context: GuestContext): OperationKind<'snapshotRestore', RestoreInput> {
  return {
    action: 'snapshot-restore',
    accept: ({ uuid, snapshotId }, asked) =>
      acceptForGuest(context, asked, {
        uuid,
        input: { snapshotId, force: true },
        check: (record) => {
          refuseBroken(record)
          getReadySnapshot(record, snapshotId)
        },
      }),
    begin: (operation) => {
      if (context.store.get(operation.subject.id).wanted === 'running')
        mark(context, 'restarting', 'running')(operation)
    },
    steps: [
      prepareStep(context),
      stopAndBackStep(context),
      keepStep(context),
      exchangeStep(context),
      ...bootSteps(context).map((step) => ifItRan(context, step)),
      forgetStep(context),
    ],
    settle: (operation, outcome) => settleRestore(context, operation, outcome),
  }
}

/** Of what the disk was. */
function keptId(operationId: string): string {
  return `before-${operationId}`
}

function prepareStep(context: GuestContext): RestoreStep {
  const { volumes } = context
  return {
    name: 'prepare',
    run: ({ subject: { id }, input: { snapshotId: snapshot } }) =>
      volumes.prepare(id, { snapshot }, limitOf(context, id)),
    undo: async ({ subject }) => void (await volumes.discardNext(subject.id)),
  }
}

function stopAndBackStep(context: GuestContext): RestoreStep {
  return { ...stopStep(context), undo: (step) => bootIfItRan(context, step) }
}

function keepStep({ volumes }: GuestContext): RestoreStep {
  return {
    name: 'keep',
    run: async ({ subject, operationId }) => void (await volumes.snapshot(subject.id, keptId(operationId))),
    undo: async ({ subject, operationId }) =>
      void (await volumes.deleteSnapshot(subject.id, keptId(operationId))),
  }
}

function exchangeStep(context: GuestContext): RestoreStep {
  const { volumes } = context
  return {
    name: 'exchange',
    run: async ({ subject }) => void (await volumes.exchange(subject.id)),
    undo: async ({ subject: { id }, operationId }) => {
      const snapshot = keptId(operationId)
      const isKept = (await volumes.listSnapshots(id)).includes(snapshot) // not once the restored disk has worked
      if (isKept) await volumes.restore(id, snapshot, limitOf(context, id))
    },
  }
}

/** That it cannot be removed now fails nothing: the next snapshot that is taken removes it. */
function forgetStep({ volumes }: GuestContext): RestoreStep {
  return {
    name: 'forget',
    run: async ({ subject, operationId, log }) => {
      await volumes
        .deleteSnapshot(subject.id, keptId(operationId))
        .catch((err: unknown) => log.warn({ err }, 'remove what a restore kept'))
    },
  }
}

function limitOf(context: GuestContext, uuid: string): number {
  const record = context.store.get(uuid)
  return driverOf(context, record).volumeLimitBytes(context.machineOf(record))
}

/** It is to run, and may: what blocks a guest in the middle of a restore does not fail it. */
function runs(record: GuestRecord): boolean {
  return record.wanted === 'running' && policyReasonOf(record) === ''
}

function ifItRan(context: GuestContext, step: Step<unknown>): RestoreStep {
  const run = async (given: StepContext<RestoreInput>): Promise<void> => {
    if (runs(context.store.get(given.subject.id))) await step.run(given)
  }
  return { ...step, run }
}

async function bootIfItRan(context: GuestContext, step: StepContext<RestoreInput>): Promise<void> {
  for (const boot of bootSteps(context)) await ifItRan(context, boot).run(step)
}

function settleRestore(
  context: GuestContext,
  { id, subject }: DefinedOperation<RestoreInput>,
  outcome: OperationOutcome,
): void {
  const record = context.store.find(subject.id)
  if (!record || outcome.status === 'canceled') return
  const isWhole = outcome.status === 'done' || outcome.undone
  const reason = outcome.status === 'failed' ? outcome.message : ''
  settled(context, subject.id, isWhole && runs(record) ? 'running' : 'stopped', isWhole ? '' : reason)
  if (!isWhole) offerKept(context, record, keptId(id))
}

/** Neither the new disk works nor is the old one back: its owner may try to restore what it was. */
function offerKept({ store, now }: GuestContext, { uuid, snapshots }: GuestRecord, id: string): void {
  const description = 'before a restore that failed'
  const kept = { id, description, createdAtMs: now(), createdBy: 'system', scheduled: false, sizeBytes: 0 }
  store.update(uuid, { snapshots: [...snapshots, { ...kept, state: 'ready' }] })
}
