import type { OperationDefinition, OperationOutcome, Step } from '../operations/types.js'
import type { GuestContext } from './context.js'
import type { GuestStatus } from './record.js'
import type { GuestUpdate } from './store.js'
import * as steps from './steps.js'
import type { PowerInput } from './steps.js'

export interface CreateInput {
  start: boolean
}

export interface GuestDefinitions {
  create: OperationDefinition<CreateInput>
  start: OperationDefinition<PowerInput>
  stop: OperationDefinition<PowerInput>
  restart: OperationDefinition<PowerInput>
  delete: OperationDefinition<PowerInput>
}

export function guestDefinitions(context: GuestContext): GuestDefinitions {
  return {
    create: createDefinition(context),
    start: startDefinition(context),
    stop: stopDefinition(context),
    restart: restartDefinition(context),
    delete: deleteDefinition(context),
  }
}

function createDefinition(context: GuestContext): OperationDefinition<CreateInput> {
  return {
    action: 'create',
    steps: [
      steps.diskStep(context),
      steps.configureStep(context),
      steps.attachStep(context, { undo: true }),
      ifStarted(steps.startStep(context)),
    ],
    settle: ({ guestUuid, input }, outcome) => {
      if (outcome.status === 'done') settled(context, guestUuid, input.start ? 'running' : 'stopped')
      else if (outcome.status === 'failed' && !outcome.undone) broken(context, guestUuid, outcome.message)
      else context.store.remove(guestUuid) // nothing of it is left on the host
    },
  }
}

function startDefinition(context: GuestContext): OperationDefinition<PowerInput> {
  return {
    action: 'start',
    begin: mark(context, 'starting', 'running'),
    steps: bootSteps(context),
    settle: ({ guestUuid, input }, outcome) =>
      settleStart(context, guestUuid, { outcome, keepWanted: input.system ?? false }),
  }
}

function stopDefinition(context: GuestContext): OperationDefinition<PowerInput> {
  return {
    action: 'stop',
    begin: mark(context, 'stopping', 'stopped'),
    steps: [steps.stopStep(context)],
    settle: ({ guestUuid }, outcome) => {
      if (outcome.status === 'done') settled(context, guestUuid, 'stopped')
      // It could not be stopped: the next comparison with the host says what is true.
      else if (outcome.status === 'failed') settled(context, guestUuid, 'running', outcome.message)
    },
  }
}

function restartDefinition(context: GuestContext): OperationDefinition<PowerInput> {
  return {
    action: 'restart',
    begin: mark(context, 'restarting', 'running'),
    steps: [steps.stopStep(context), ...bootSteps(context)],
    settle: ({ guestUuid }, outcome) => settleStart(context, guestUuid, { outcome, keepWanted: true }),
  }
}

function deleteDefinition(context: GuestContext): OperationDefinition<PowerInput> {
  return {
    action: 'delete',
    forwardOnly: true,
    begin: mark(context, 'deleting', 'stopped'),
    steps: [steps.removeStep(context)],
    settle: ({ guestUuid }, outcome) => {
      if (outcome.status === 'done') context.store.remove(guestUuid)
      else if (outcome.status === 'failed') broken(context, guestUuid, outcome.message)
    },
  }
}

/** Shows what is going on and what is wanted from now on; the operation's end settles it. */
function mark(context: GuestContext, status: GuestStatus, wanted: 'running' | 'stopped') {
  return ({ guestUuid }: { guestUuid: string }): void =>
    context.store.update(guestUuid, { status, wanted, statusReason: '' })
}

/** Configuration and rules anew each time: limits or the program may have changed since. */
function bootSteps(context: GuestContext): Step<PowerInput>[] {
  return [steps.configureStep(context), steps.attachStep(context, { undo: false }), steps.startStep(context)]
}

function ifStarted(step: Step<unknown>): Step<CreateInput> {
  return { ...step, run: async (context) => (context.input.start ? step.run(context) : undefined) }
}

/** @param keepWanted the guest ran before and should again: the comparison with the host tries it later */
function settleStart(
  context: GuestContext,
  uuid: string,
  { outcome, keepWanted }: { outcome: OperationOutcome; keepWanted: boolean },
): void {
  if (outcome.status === 'done') return settled(context, uuid, 'running')
  if (outcome.status === 'canceled') return // nothing was begun
  const wanted = keepWanted ? {} : ({ wanted: 'stopped' } as const)
  context.store.update(uuid, { status: 'stopped', statusReason: outcome.message, ...wanted })
}

function settled(
  context: GuestContext,
  uuid: string,
  status: 'running' | 'stopped',
  statusReason = '',
): void {
  const update: GuestUpdate = { status, statusReason }
  context.store.update(uuid, update)
}

function broken(context: GuestContext, uuid: string, statusReason: string): void {
  context.store.update(uuid, { status: 'error', statusReason, wanted: 'stopped' })
}
