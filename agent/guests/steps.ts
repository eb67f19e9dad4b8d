import type { StageText } from '../../shared/task-stages.js'
import { allEnded } from '../../shared/all-ended.js'
import type { AssignResult, GuestEvent } from '../drivers/contract.js'
import type { NetworkPart } from '../network/contract.js'
import type { Step, StepContext } from '../operations/types.js'
import type { BootContext, DiskContext, GuestContext, GuestImages } from './context.js'
import { refuseNotOwned } from './moves/change-ownership.js'
import { fullNetworkOf, networkOf } from './resources/network.js'
import { CopyJournal } from './record/copy-journal.js'
import { checkAllowedToRun, refuseSuspended } from './policy/policy.js'
import type { GuestRecord, PendingChange } from './record/record.js'
import { volumeLimitOf } from './snapshots/volume-bound.js'
import type { GuestStore } from './record/guest-store.js'

/*
 * This module contains steps of operations on guests. Each step reads the guest's record. A step that runs again after
 * a restart therefore acts on the current state.
 */

export type GuestStep<Input = unknown> = Step<Input>

/**
 * Builds the image unless the host has it, clones a disk from it, and prepares the disk for the first boot.
 * @param around called when the image exists; it calls `makeDisk`, which creates the disk
 */
export function diskStep(context: GuestContext, around: (makeDisk: () => Promise<void>) => Promise<void>): GuestStep {
  return {
    name: 'disk',
    weight: 3,
    run: withGuest(context.store, async (record, step) => {
      await ensureImage(context.images, record.spec.templateId, step)
      await around(() => makeDisk(context, record))
    }),
    undo: ifPresent(context.store, (record) => removeFromHost(context, record)),
  }
}

async function makeDisk(
  context: Pick<GuestContext, 'machines' | 'volumes' | 'logins'>,
  record: GuestRecord,
): Promise<void> {
  const driver = context.machines.driverOf(record)
  const machine = context.machines.of(record)
  const [login] = await allEnded([
    driver.prepareLogin(context.logins.open(record)),
    context.volumes.clone(record.uuid, record.spec.templateId, volumeLimitOf(context.machines, record)),
  ])
  await driver.initialize(machine, login, machine.volume)
}

export async function ensureImage(images: GuestImages, templateId: string, step: StepContext<unknown>): Promise<void> {
  if (images.has(templateId)) return
  const report = (fraction: number, stage: StageText): void => step.report(fraction, stage)
  await step.yieldWhile(images.ensure(templateId, report, step.signal)) // other operations can run meanwhile
}

/** Writes the files that a start needs. In parallel, sets the network rules, before the guest can send a packet. */
export function configureStep(context: BootContext, options: { undo: boolean }): GuestStep {
  const configure: GuestStep = {
    name: 'configure',
    weight: 2,
    run: inTurn(context.store, async (record) => {
      const attached = context.network.attach(
        networkOf(record, context.config),
        isGated(context) ? gatedParts : undefined,
      )
      await allEnded([attached, context.machines.driverOf(record).configure(context.machines.of(record))])
    }),
  }
  const undo = ifPresent(context.store, (record) => detachGuest(context, record))
  return options.undo ? { ...configure, undo } : configure
}

/** Parts to set while the start gate is closed. The addresses follow later, because another host may have them. */
const gatedParts: readonly NetworkPart[] = ['rules', 'rates']

function isGated({ startGate }: BootContext): boolean {
  return startGate !== undefined && startGate.leftMs > 0
}

/**
 * Starts the guest, and sets the rates of its interface as soon as the interface exists.
 * @param isSkipped returns true for guests that must not be started; the step then does nothing
 */
export function startStep(context: BootContext, isSkipped: (record: GuestRecord) => boolean = () => false): GuestStep {
  const start = inTurn(context.store, async (record, step) => {
    if (isSkipped(record)) return
    refuseNotOwned(record)
    checkAllowedToRun(record) // the guest may have been suspended while the operation was queued
    const setRates = (): Promise<void> => context.network.attach(networkOf(record, context.config), ['rates'])
    await context.machines.driverOf(record).start(context.machines.of(record), step.signal, setRates)
    noteStarted(context.store, record)
  })
  const addAddresses = inTurn(context.store, (record) =>
    context.network.attach(networkOf(record, context.config), ['addresses']),
  )
  return {
    name: 'start',
    weight: 2,
    run: async (step) => {
      if (isGated(context)) {
        await step.yieldWhile(context.startGate!.opened(step.signal)) // the guest may be fenced meanwhile
        await addAddresses(step)
      }
      await start(step)
    },
    undo: ifPresent(context.store, (record) => context.machines.driverOf(record).kill(context.machines.of(record))),
  }
}

/**
 * Makes a step fail if an administrator has suspended the guest. The suspension can be newer than the operation.
 * @param except selects inputs for which the step runs anyway
 */
export function unlessSuspended<Input>(
  { store }: Pick<GuestContext, 'store'>,
  step: Step<Input>,
  except: (input: Input) => boolean = () => false,
): Step<Input> {
  const run: Step<Input>['run'] = async (at) => {
    if (!except(at.input)) refuseSuspended(store.get(at.subject.id))
    await step.run(at)
  }
  return { ...step, run }
}

/** Clears the list of changes that waited for the guest's start. */
function noteStarted(store: GuestStore, { uuid, atNextStart }: GuestRecord): void {
  if (atNextStart.length > 0) store.update(uuid, { atNextStart: [] })
}

const panicked = 'the system of the guest panicked'

/**
 * Records an event of a running guest. After a reboot by itself, the guest has its new addresses and password. Only a
 * change of limits still waits for the next start by the agent.
 */
export function noteEvent(store: GuestStore, uuid: string, event: GuestEvent): void {
  const record = store.find(uuid)
  if (record?.status !== 'running') return
  const isBroken = event === 'panicked'
  const atNextStart = record.atNextStart.filter((change) => isBroken || change === 'limits')
  const otherReason = record.statusReason === panicked ? '' : record.statusReason
  const statusReason = isBroken ? panicked : otherReason
  if (atNextStart.length === record.atNextStart.length && statusReason === record.statusReason) return
  store.update(uuid, { atNextStart, statusReason })
}

/** Records that the guest gets the change at its next start (`later`), or that it already has the change. */
export function noteForStart(
  store: GuestStore,
  uuid: string,
  { change, later }: { readonly change: PendingChange; readonly later: boolean },
): void {
  const { atNextStart, wanted } = store.get(uuid)
  if (wanted !== 'running' || later === atNextStart.includes(change)) return
  const others = atNextStart.filter((one) => one !== change)
  store.update(uuid, { atNextStart: later ? [...others, change] : others })
}

/** Returns the steps of a start. They write all files again, because limits or the agent's version may have changed. */
export function bootSteps(context: BootContext): GuestStep[] {
  return [configureStep(context, { undo: false }), startStep(context)]
}

/** Records if a running guest gets its IPv6 addresses only at its next start. */
export function noteAssigned(store: GuestStore, uuid: string, result: AssignResult): void {
  if (result === 'unchanged') return
  noteForStart(store, uuid, { change: 'addresses', later: result === 'at_next_start' })
}

export function stopStep(context: Pick<GuestContext, 'store' | 'machines'>): GuestStep<StopInput> {
  return {
    name: 'stop',
    weight: 3,
    run: withGuest<StopInput>(context.store, (record, step) => {
      const driver = context.machines.driverOf(record)
      const timeoutMs = step.input.force ? 0 : driver.stopTimeoutMs
      const stopped = driver.stop(context.machines.of(record), { timeoutMs, signal: step.signal })
      return step.input.force ? stopped : step.yieldWhile(stopped) // a graceful shutdown takes long, so other operations run during it
    }),
  }
}

export function removeStep(context: GuestContext): GuestStep {
  return {
    name: 'remove',
    run: ifPresent(context.store, async (record) => {
      await context.machines.driverOf(record).kill(context.machines.of(record))
      await removeFromHost(context, record)
      context.store.changes.transaction(() => {
        new CopyJournal(context.store.changes.db).forget(record.uuid)
        context.history.prune()
      })
    }),
  }
}

/**
 * Removes a guest's rules and volume in one step. With two steps, a restart of the agent between them would restore the
 * rules, because the guest is still recorded.
 */
export async function removeFromHost(context: GuestContext, record: GuestRecord): Promise<void> {
  await allEnded([detachGuest(context, record), removeMachine(context, record)])
}

type RemovalContext = DiskContext & Pick<GuestContext, 'transfers'>

/** Removes the volume with its snapshots last, because the guest's processes use the volume until they end. */
async function removeMachine(context: RemovalContext, record: GuestRecord): Promise<void> {
  await context.machines.driverOf(record).delete(context.machines.of(record))
  await context.transfers.endSends(record.uuid)
  await context.volumes.remove(record.uuid)
}

export interface StopInput {
  /** True if the guest must be stopped without a graceful shutdown. */
  force: boolean
}

function detachGuest(context: BootContext, { uuid }: GuestRecord): Promise<void> {
  return context.store.mutex.run(uuid, async () => {
    const record = context.store.find(uuid)
    if (record) await context.network.detach(fullNetworkOf(record, context.config))
  })
}

/** Like `withGuest`, but holds the guest's mutex while the step runs, so that no setting changes at the same time. */
function inTurn(
  store: GuestStore,
  act: (record: GuestRecord, step: StepContext<unknown>) => Promise<void>,
): (step: StepContext<unknown>) => Promise<void> {
  const run = withGuest(store, act)
  return (step) => store.mutex.run(step.subject.id, () => run(step))
}

/** Wraps a step's function so that it gets the guest's record. @throws {BerthError} `not_found` */
export function withGuest<Input>(
  store: GuestStore,
  act: (record: GuestRecord, step: StepContext<Input>) => Promise<void>,
): (step: StepContext<Input>) => Promise<void> {
  return (step) => act(store.get(step.subject.id), step)
}

/** Runs `act` only if the guest is still recorded. For steps that remove or undo something. */
export function ifPresent<Input>(
  store: GuestStore,
  act: (record: GuestRecord, step: StepContext<Input>) => Promise<void>,
): (step: StepContext<Input>) => Promise<void> {
  return async (step) => {
    const record = store.find(step.subject.id)
    if (record) await act(record, step)
  }
}
