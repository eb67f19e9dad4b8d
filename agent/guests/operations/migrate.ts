import { conflict, invalidField } from '../../../shared/errors.js'
import { checkInteger } from '../../../shared/field-checks.js'
import { offlineRequired } from '../../../shared/move-rules.js'
import { hostIdPattern } from '../../../shared/identity.js'
import type { OperationKind } from '../../operations/orders.js'
import type { Step, StepContext } from '../../operations/types.js'
import type { BackupContext } from '../context.js'
import { copyRunning, copyStopped, forgetSent, type CopyParts } from '../moves/copy-disk.js'
import { sealTicketKey } from '../moves/ticket-key.js'
import type { MoveInput } from '../moves/move-input.js'
import { awaitOwner, handOver, leave, stay } from '../moves/leave.js'
import { readOwnership } from '../moves/change-ownership.js'
import type { GuestRecord } from '../record/record.js'
import { ifPresent, removeStep, stopStep, type StopInput } from '../steps.js'
import { acceptForGuest, refuseBroken, refuseRescued } from './guest-order.js'
import { bootAgain, stopToBootAgain } from './replace-disk.js'

type MigrateInput = MoveInput & StopInput

const maxBandwidthMbps = 1_000_000

/** Moves a guest to another host. The operation's id is the id of the move. */
export function migrateKind(
  context: BackupContext,
  readTraffic: CopyParts['readTraffic'],
): OperationKind<'migrate', MigrateInput> {
  const { store } = context
  const parts = { context, readTraffic }
  return {
    action: 'migrate',
    exclusive: true,
    accept: ({ uuid, ...order }, asked) => {
      const { toHostId, generation, bandwidthMbps, offline } = order
      const input = { ...parseInput(order), ticketKey: sealTicketKey(context, uuid, order.ticket) }
      const accepted = acceptForGuest(store, asked, {
        uuid,
        input,
        allowsDeleted: true,
        check: (record) => {
          checkMovable(record, order)
          const { generation } = readOwnership(store, uuid)
          if (generation !== order.generation)
            throw conflict(
              'guest_moving',
              'the move is outdated: the gateway and this host know different decisions about which host owns the container',
            )
        },
      })
      // The hash identifies repeated orders. It excludes the ticket: gateways repeat an order with a new ticket.
      return { ...accepted, hashOf: { toHostId, generation, bandwidthMbps, ...(offline && { offline }) } }
    },
    steps: [
      shutdownStep(context),
      copyStep(parts),
      leaveStep(context),
      stopStep(context),
      lastStep(parts),
      handOverStep(context),
      removal(context),
    ],
    settle: ({ subject }, outcome) => {
      const record = store.find(subject.id)
      if (!record) return
      if (outcome.status === 'done') return isLeft(context, subject.id) ? store.remove(subject.id) : undefined
      if (record.status !== 'stopping') return
      store.update(subject.id, { status: 'stopped', statusReason: outcome.status === 'failed' ? outcome.message : '' })
    },
  }
}

function parseInput(order: Omit<MoveInput, 'ticketKey'>): Omit<MigrateInput, 'ticketKey'> {
  const { generation, toHostId, toAddress, toSerials, ticket, offline = false } = order
  if (!new RegExp(hostIdPattern).test(toHostId)) throw invalidField('to_host_id', 'to_host_id: is not a host id')
  const bandwidthMbps = checkInteger('bandwidth_mbps', order.bandwidthMbps, { min: 0, max: maxBandwidthMbps })
  return { generation, toHostId, toAddress, toSerials: [...toSerials], ticket, bandwidthMbps, offline, force: false }
}

/** @throws {BerthError} `offline_required`, `invalid_state` */
function checkMovable(record: GuestRecord, { offline }: Pick<MoveInput, 'offline'>): void {
  refuseBroken(record)
  const isOff = record.wanted === 'stopped' && record.status === 'stopped'
  if (record.spec.virtualization === 'kvm' && !isOff && !offline) throw offlineRequired()
  refuseRescued(record)
  if (record.backups.some(({ state }) => state === 'taking'))
    throw conflict('invalid_state', 'a backup of the container is running: wait for its end, or cancel it')
}

type MoveStep = Step<MigrateInput>

/** True if this host owns the guest and has not begun to stop it for the move. */
function isOwned(context: BackupContext, { subject }: StepContext<unknown>): boolean {
  return readOwnership(context.store, subject.id).role === 'owner'
}

/** True if the guest has left this host, and no later move has brought the guest back. */
function isLeft({ store }: BackupContext, uuid: string): boolean {
  return readOwnership(store, uuid).role === 'absent'
}

/** Shuts the guest down before its disk is copied, if this was ordered. The undo starts the guest again. */
function shutdownStep(context: BackupContext): MoveStep {
  const { store } = context
  const stop = stopToBootAgain(context)
  return {
    name: 'shutdown',
    weight: 3,
    run: async (step) => {
      if (!step.input.offline || !isOwned(context, step)) return
      const { uuid, status } = store.get(step.subject.id)
      if (status === 'running') store.update(uuid, { status: 'stopping' })
      await stop.run(step)
      if (store.get(uuid).status === 'stopping') store.update(uuid, { status: 'stopped' })
    },
    undo: async (step) => {
      if (step.input.offline) await stop.undo?.(step)
    },
  }
}

function copyStep(parts: CopyParts): MoveStep {
  return {
    name: 'copy',
    weight: 8,
    cancelable: true,
    run: async (step) => {
      // After an update of the agent, this step may be repeated. If this host has already begun to stop the guest, the
      // repetition must do nothing.
      if (isOwned(parts.context, step)) await step.yieldWhile(copyRunning(parts, step))
    },
    undo: async (step) => forgetSent(parts.context, step),
  }
}

function leaveStep(context: BackupContext): MoveStep {
  return {
    name: 'leave',
    run: async (step) => leave(context.store, step),
    undo: ifPresent(context.store, async (record, step) => {
      if (stay(context.store, record.uuid)) await bootAgain(context, context.store.get(record.uuid), step)
    }),
  }
}

function lastStep(parts: CopyParts): MoveStep {
  return {
    name: 'last',
    run: (step) => copyStopped(parts, step),
  }
}

function handOverStep(context: BackupContext): MoveStep {
  return {
    name: 'hand_over',
    run: async (step) => {
      handOver(context.store, step)
      await step.yieldWhile(awaitOwner(context.store, step))
    },
  }
}

/** Removes the guest from this host. A failure is only logged, because the reconciler removes the remains. */
function removal(context: BackupContext): MoveStep {
  const remove = removeStep(context)
  return {
    name: 'remove',
    run: async (step) => {
      if (!isLeft(context, step.subject.id)) return
      try {
        await remove.run(step)
      } catch (err) {
        if (step.signal.aborted) throw err
        step.log.warn({ err }, 'could not remove a container that has moved to another host; it is repeated later')
      }
    },
  }
}
