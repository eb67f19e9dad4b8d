import type { Step, StepContext } from '../operations/types.js'
import { driverOf, type GuestContext } from './context.js'
import { networkOf } from './network.js'
import { checkAllowed } from './policy.js'
import type { GuestRecord } from './record.js'
import { volumeLimitOf } from './volume-bound.js'

/*
 * The effects that guest operations are composed of. Each reads the guest anew from the journal, so a step
 * that runs again after a restart acts on what is true then.
 */

export type GuestStep<Input = unknown> = Step<Input>

/** The image, where it is not here yet, a disk of it, and on the disk what a first boot needs. */
export function diskStep(context: GuestContext): GuestStep {
  return {
    name: 'disk',
    weight: 3,
    run: withGuest(context, async (record, step) => {
      await ensureImage(context, record.spec.templateId, step)
      const driver = driverOf(context, record)
      const machine = context.machineOf(record)
      await context.volumes.clone(record.uuid, record.spec.templateId, volumeLimitOf(context, record))
      await driver.initialize(machine, context.openLogin(record), machine.volume)
    }),
    undo: ifPresent(context, (record) => removeFromHost(context, record)),
  }
}

/** On this host, where it is not yet. */
export async function ensureImage(
  context: GuestContext,
  templateId: string,
  step: StepContext<unknown>,
): Promise<void> {
  if (context.images.has(templateId)) return
  const report = (fraction: number, stage: string): void => step.report(fraction, stage)
  await step.yieldWhile(context.images.ensure(templateId, report, step.signal)) // minutes, perhaps: others go on
}

export function configureStep(context: GuestContext): GuestStep {
  return {
    name: 'configure',
    run: inTurn(context, (record) => driverOf(context, record).configure(context.machineOf(record))),
  }
}

/** The guest's rules stand before its first packet. */
export function attachStep(context: GuestContext, options: { undo: boolean }): GuestStep {
  const attach: GuestStep = {
    name: 'network',
    run: inTurn(context, (record) => context.network.attach(networkOf(record, context))),
  }
  const undo = ifPresent(context, (record) => detachGuest(context, record))
  return options.undo ? { ...attach, undo } : attach
}

/** Its rates with it: the device they are of comes with the start. */
export function startStep(context: GuestContext): GuestStep {
  return {
    name: 'start',
    weight: 2,
    run: inTurn(context, async (record, step) => {
      checkAllowed(record) // it may have expired while the order waited
      await driverOf(context, record).start(context.machineOf(record), step.signal)
      await context.network.attach(networkOf(record, context), ['rates'])
    }),
    undo: ifPresent(context, (record) => driverOf(context, record).kill(context.machineOf(record))),
  }
}

/** Configuration and rules anew each time: limits or the program may have changed since. */
export function bootSteps(context: GuestContext): GuestStep[] {
  return [configureStep(context), attachStep(context, { undo: false }), startStep(context)]
}

export function stopStep(context: GuestContext): GuestStep<StopInput> {
  return {
    name: 'stop',
    weight: 3,
    run: withGuest<StopInput>(context, (record, step) => {
      const driver = driverOf(context, record)
      const timeoutMs = step.input.force ? 0 : driver.stopTimeoutMs
      const stopped = driver.stop(context.machineOf(record), { timeoutMs, signal: step.signal })
      return step.input.force ? stopped : step.yieldWhile(stopped) // the guest takes its time, not ours
    }),
  }
}

export function removeStep(context: GuestContext): GuestStep {
  return {
    name: 'remove',
    run: ifPresent(context, async (record) => {
      await driverOf(context, record).kill(context.machineOf(record))
      await removeFromHost(context, record)
    }),
  }
}

/** Rules and volume in one step: a restart in between would put the rules back with those of all other guests. */
async function removeFromHost(context: GuestContext, record: GuestRecord): Promise<void> {
  const ended = await Promise.allSettled([detachGuest(context, record), removeMachine(context, record)])
  // Both have ended, so that another attempt meets neither.
  for (const result of ended) if (result.status === 'rejected') throw result.reason
}

/** Its volume with all snapshots last: as long as the guest has processes, they have it. */
async function removeMachine(context: GuestContext, record: GuestRecord): Promise<void> {
  await driverOf(context, record).delete(context.machineOf(record))
  await context.volumes.remove(record.uuid)
}

export interface StopInput {
  /** Without a graceful shutdown. */
  force: boolean
}

function detachGuest(context: GuestContext, { uuid }: GuestRecord): Promise<void> {
  return context.turns.run(uuid, async () => {
    const record = context.store.find(uuid)
    if (record) await context.network.detach(networkOf(record, context))
  })
}

/** As `withGuest`, in the guest's turn: what a setting changes meanwhile is not overwritten by what was read. */
function inTurn(
  context: GuestContext,
  act: (record: GuestRecord, step: StepContext<unknown>) => Promise<void>,
): (step: StepContext<unknown>) => Promise<void> {
  const run = withGuest(context, act)
  return (step) => context.turns.run(step.subject.id, () => run(step))
}

export function withGuest<Input>(
  context: GuestContext,
  act: (record: GuestRecord, step: StepContext<Input>) => Promise<void>,
): (step: StepContext<Input>) => Promise<void> {
  return (step) => act(context.store.get(step.subject.id), step)
}

/** For what removes or takes back: a guest that the journal no longer has is removed. */
export function ifPresent<Input>(
  context: GuestContext,
  act: (record: GuestRecord, step: StepContext<Input>) => Promise<void>,
): (step: StepContext<Input>) => Promise<void> {
  return async (step) => {
    const record = context.store.find(step.subject.id)
    if (record) await act(record, step)
  }
}
