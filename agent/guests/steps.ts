import type { Step, StepContext } from '../operations/types.js'
import { driverOf, type GuestContext } from './context.js'
import { networkOf, type GuestRecord, type GuestStatus } from './record.js'

/*
 * The effects that guest operations are composed of. Each reads the guest anew from the journal, so a step
 * that runs again after a restart acts on what is true then.
 */

export type GuestStep<Input = unknown> = Step<Input>

/** Shows what is going on and what is wanted from now on; the operation's end settles it. */
export function markStep(
  context: GuestContext,
  status: GuestStatus,
  wanted: 'running' | 'stopped',
): GuestStep {
  return {
    name: 'mark',
    weight: 0,
    run: async ({ guestUuid }) => context.store.update(guestUuid, { status, wanted, statusReason: '' }),
  }
}

export function imageStep(context: GuestContext): GuestStep {
  return {
    name: 'image',
    weight: 2,
    run: async (step) => {
      const { templateId } = context.store.get(step.guestUuid).spec
      if (context.images.has(templateId)) return
      const image = context.images.ensure(
        templateId,
        (fraction, stage) => step.report(fraction, stage),
        step.signal,
      )
      await step.yieldWhile(image) // minutes, perhaps: others go on meanwhile
    },
  }
}

export function diskStep(context: GuestContext): GuestStep {
  return {
    name: 'disk',
    run: withGuest(context, (record) => driverOf(context, record).createDisk(context.machineOf(record))),
    undo: ifPresent(context, (record) => removeFromHost(context, record)),
  }
}

export function configureStep(context: GuestContext): GuestStep {
  return {
    name: 'configure',
    run: withGuest(context, (record) => driverOf(context, record).configure(context.machineOf(record))),
  }
}

/** The guest's rules stand before its first packet. */
export function attachStep(context: GuestContext, options: { undo: boolean }): GuestStep {
  const attach: GuestStep = {
    name: 'network',
    run: withGuest(context, (record) => context.network.attach(networkOf(record, context.deviceOf))),
  }
  const undo = ifPresent(context, (record) => context.network.detach(networkOf(record, context.deviceOf)))
  return options.undo ? { ...attach, undo } : attach
}

export function startStep(context: GuestContext): GuestStep {
  return {
    name: 'start',
    weight: 2,
    run: withGuest(context, (record, step) =>
      driverOf(context, record).start(context.machineOf(record), step.signal),
    ),
    undo: ifPresent(context, (record) => driverOf(context, record).kill(context.machineOf(record))),
  }
}

/** Host name and login, once in a guest's life. */
export function initializeStep(context: GuestContext): GuestStep {
  return {
    name: 'initialize',
    run: withGuest(context, async (record, step) => {
      if (record.initialized) return
      const login = context.openLogin(record)
      await driverOf(context, record).initialize(context.machineOf(record), login, step.signal)
      context.store.update(record.uuid, { initialized: true })
    }),
  }
}

export function stopStep(context: GuestContext): GuestStep<PowerInput> {
  return {
    name: 'stop',
    weight: 3,
    run: withGuest<PowerInput>(context, (record, step) => {
      const timeoutMs = step.input.force ? 0 : context.config.lxc.stop_timeout_seconds * 1000
      const machine = context.machineOf(record)
      const stopped = driverOf(context, record).stop(machine, { timeoutMs, signal: step.signal })
      return step.input.force ? stopped : step.yieldWhile(stopped) // the guest takes its time, not ours
    }),
  }
}

export function killStep(context: GuestContext): GuestStep {
  return {
    name: 'kill',
    run: ifPresent(context, (record) => driverOf(context, record).kill(context.machineOf(record))),
  }
}

export function removeStep(context: GuestContext): GuestStep {
  return {
    name: 'remove',
    run: ifPresent(context, (record) => removeFromHost(context, record)),
  }
}

/** Rules and disk in one step: a restart in between would put the rules back with those of all other guests. */
async function removeFromHost(context: GuestContext, record: GuestRecord): Promise<void> {
  await context.network.detach(networkOf(record, context.deviceOf))
  await driverOf(context, record).delete(context.machineOf(record))
}

export interface PowerInput {
  force: boolean
  /** Ordered by the agent itself: its failure leaves what the owner wants as it is. */
  system?: boolean
}

function withGuest<Input>(
  context: GuestContext,
  act: (record: GuestRecord, step: StepContext<Input>) => Promise<void>,
): (step: StepContext<Input>) => Promise<void> {
  return (step) => act(context.store.get(step.guestUuid), step)
}

/** For what removes: a guest that the journal no longer has is removed. */
function ifPresent(
  context: GuestContext,
  act: (record: GuestRecord) => Promise<void>,
): (step: StepContext<unknown>) => Promise<void> {
  return async ({ guestUuid }) => {
    const record = context.store.find(guestUuid)
    if (record) await act(record)
  }
}
