import { toBerthError } from '../../../shared/errors.js'
import type { Login } from '../../drivers/contract.js'
import type { StepContext } from '../../operations/types.js'
import { driverOf, type GuestContext } from '../context.js'
import { policyReasonOf } from '../policy.js'
import type { GuestRecord } from '../record.js'
import { bootSteps, ensureImage, ifPresent, stopStep, withGuest, type GuestStep } from '../steps.js'

export interface ReinstallInput {
  templateId: string
  /** Sealed: the journal has no password in clear. Empty: the guest keeps its own. */
  login: string
  /** Without a graceful shutdown. */
  force: boolean
}

type ReinstallStep = GuestStep<ReinstallInput>

/** The old disk, while it is not known whether the new one works; no snapshot of its owner's has this id. */
export const oldDiskId = 'before-reinstall'

/**
 * The guest runs on while the new disk is made beside the old one. The journal has the old template and login until
 * `commit`: what fails before brings the old disk back, nothing that comes after does.
 */
export function reinstallSteps(context: GuestContext): ReinstallStep[] {
  return [
    imageStep(context),
    preparedDiskStep(context),
    { ...stopStep(context), undo: ifPresent(context, (record, step) => bootAgain(context, record, step)) },
    exchangeStep(context),
    ...bootSteps(context).map((step) => ifWanted(context, step)),
    commitStep(context),
  ]
}

function imageStep(context: GuestContext): ReinstallStep {
  return { name: 'image', run: (step) => ensureImage(context, step.input.templateId, step) }
}

function preparedDiskStep(context: GuestContext): ReinstallStep {
  const { volumes } = context
  return {
    name: 'disk',
    weight: 3,
    run: withGuest<ReinstallInput>(context, async (record, { input }) => {
      const driver = driverOf(context, record)
      const machine = context.machineOf(record)
      await volumes.deleteSnapshot(record.uuid, oldDiskId) // of an earlier reinstall that could not
      const limitBytes = driver.volumeLimitBytes(machine)
      await volumes.prepare(record.uuid, { templateId: input.templateId }, limitBytes)
      await driver.initialize(machine, newLogin(context, record, input), volumes.nextPathOf(record.uuid))
    }),
    undo: ifPresent(context, async ({ uuid }) => void (await volumes.discardNext(uuid))),
  }
}

function newLogin({ openLogin }: GuestContext, record: GuestRecord, { login }: ReinstallInput): Login {
  return openLogin(login === '' ? record : { uuid: record.uuid, login })
}

function exchangeStep(context: GuestContext): ReinstallStep {
  const { volumes } = context
  return {
    name: 'exchange',
    run: withGuest(context, async ({ uuid }) => {
      await volumes.snapshot(uuid, oldDiskId)
      await volumes.exchange(uuid)
    }),
    undo: ifPresent(context, async (record) => {
      const { uuid } = record
      if (!(await volumes.listSnapshots(uuid)).includes(oldDiskId)) return
      await volumes.restore(
        uuid,
        oldDiskId,
        driverOf(context, record).volumeLimitBytes(context.machineOf(record)),
      )
      await volumes.deleteSnapshot(uuid, oldDiskId)
    }),
  }
}

function ifWanted(context: GuestContext, step: GuestStep): ReinstallStep {
  const run: ReinstallStep['run'] = async (at) => {
    if (mayRun(context.store.get(at.subject.id))) await step.run(at)
  }
  return { ...step, run }
}

/** It may have been blocked while the order waited: it is made anew all the same. */
function mayRun(record: GuestRecord): boolean {
  return record.wanted === 'running' && policyReasonOf(record) === ''
}

/** From here on the guest is the new one. The old disk that cannot be removed now goes with the next reinstall. */
function commitStep(context: GuestContext): ReinstallStep {
  return {
    name: 'commit',
    run: withGuest<ReinstallInput>(context, async (record, { input, log }) => {
      const { templateId, login } = input
      const changed = { login, hasPassword: newLogin(context, record, input).password !== undefined }
      context.store.update(record.uuid, { templateId, ...(login === '' ? {} : changed) })
      await context.volumes
        .deleteSnapshot(record.uuid, oldDiskId)
        .catch((err: unknown) => log.error({ err }, 'remove the disk of before the reinstall'))
    }),
  }
}

/** The disk is back; a guest that would not start with it before is not broken by the reinstall. */
async function bootAgain(
  context: GuestContext,
  record: GuestRecord,
  step: StepContext<ReinstallInput>,
): Promise<void> {
  if (!mayRun(record)) return
  try {
    for (const boot of bootSteps(context)) await boot.run(step)
  } catch (error) {
    if (step.signal.aborted) throw error
    step.log.warn({ err: toBerthError(error, 'start the guest again') }, 'the old disk is back, not started')
  }
}
