import { setTimeout as delay } from 'node:timers/promises'
import { conflict, invalidField } from '../../../shared/errors.js'
import { checkInteger } from '../../../shared/field-checks.js'
import { downtimeMs, offlineRequired } from '../../../shared/move-rules.js'
import { hostIdPattern } from '../../../shared/identity.js'
import type { OperationKind } from '../../operations/orders.js'
import type { Step, StepContext } from '../../operations/types.js'
import type { BackupContext } from '../context.js'
import { copyRunning, copyStopped, forgetSent, type CopyParts } from '../moves/copy-disk.js'
import type { LiveSender } from '../moves/live-sender.js'
import { sealTicketKey } from '../moves/ticket-key.js'
import type { MoveInput } from '../moves/move-input.js'
import { awaitOwner, handOver, leave, readPausedAt, readSentHistory, stay } from '../moves/leave.js'
import { readOwnership } from '../moves/change-ownership.js'
import { parseAddresses } from '../parse-settings.js'
import { networkOf } from '../resources/network.js'
import type { GuestRecord } from '../record/record.js'
import { ifPresent, removeStep, stopStep, type StopInput } from '../steps.js'
import { acceptForGuest, refuseBroken, refuseRescued } from './guest-order.js'
import { bootAgain, stopToBootAgain } from './replace-disk.js'

type MigrateInput = MoveInput & StopInput

const maxBandwidthMbps = 1_000_000

/** Moves a guest to another host. The operation's id is the id of the move. */
export function migrateKind(parts: CopyParts, live: LiveSender): OperationKind<'migrate', MigrateInput> {
  const { context } = parts
  const { store } = context
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
              'the move is outdated: the gateway and this host disagree about which host owns the container',
            )
        },
      })
      // The hash identifies repeated orders. It excludes the ticket, because gateways repeat an order with a new
      // ticket. It also excludes `live`, because the guest may have stopped meanwhile.
      return { ...accepted, hashOf: { toHostId, generation, bandwidthMbps, ...(offline && { offline }) } }
    },
    steps: [
      shutdownStep(context),
      copyStep(parts, live),
      leaveStep(context, live),
      stopUnlessLive(context),
      lastStep(parts, live),
      handOverStep(context, live),
      removal(context),
    ],
    settle: ({ id, subject }, outcome) => {
      const record = store.find(subject.id)
      if (!record) return
      if (outcome.status === 'done') return forgetLeft(context, subject.id, id)
      if (record.status !== 'stopping') return
      store.update(subject.id, { status: 'stopped', statusReason: outcome.status === 'failed' ? outcome.message : '' })
    },
  }
}

function parseInput(order: Omit<MoveInput, 'ticketKey'>): Omit<MigrateInput, 'ticketKey'> {
  const { generation, toHostId, toAddress, toSerials, ticket, offline = false, live = false } = order
  const keptIpv4s = parseAddresses('kept_ipv4s', order.keptIpv4s ?? [], 'ipv4')
  if (!new RegExp(hostIdPattern).test(toHostId))
    throw invalidField('to_host_id', 'to_host_id: must be the id of a host')
  const bandwidthMbps = checkInteger('bandwidth_mbps', order.bandwidthMbps, { min: 0, max: maxBandwidthMbps })
  const to = { toHostId, toAddress, toSerials: [...toSerials] }
  const parsed = { generation, ...to, ticket, bandwidthMbps, keptIpv4s, force: false }
  if (!live || offline) return { ...parsed, offline }
  return { ...parsed, live, maxDowntimeMs: checkInteger('max_downtime_ms', order.maxDowntimeMs ?? 0, downtimeMs) }
}

/** @throws {BerthError} `offline_required`, `invalid_state` */
function checkMovable(record: GuestRecord, { offline, live }: Pick<MoveInput, 'offline' | 'live'>): void {
  refuseBroken(record)
  const isOff = record.wanted === 'stopped' && record.status === 'stopped'
  const isMachine = record.spec.virtualization === 'kvm'
  if (isMachine && !isOff && !offline && !live) throw offlineRequired(['the gateway did not request a live move'])
  if (live && !offline && (!isMachine || record.status !== 'running'))
    throw conflict('invalid_state', 'only a running virtual machine can move live')
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

/**
 * Removes a guest that has left. Also deletes its tasks and alerts, if the target has them.
 * @param moveId id of the move's task, which stays on this host
 */
function forgetLeft(context: BackupContext, uuid: string, moveId: string): void {
  const { store, history } = context
  if (!isLeft(context, uuid)) return
  store.remove(uuid) // precedes the history, so that gateways see its removal as a part of the move
  const revision = readSentHistory(store, uuid)
  if (revision !== undefined) history.removeLeft(uuid, { revision, except: moveId })
}

/** For an offline move, shuts the guest down before its disk is copied. The undo starts the guest again. */
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
      if (step.input.offline && !isFenced(context, step)) await stop.undo?.(step)
    },
  }
}

/** True if the guest was restored on another host during its move. This host then keeps the disk, and does not start it. */
function isFenced({ store }: BackupContext, { subject }: Pick<StepContext<unknown>, 'subject'>): boolean {
  return readOwnership(store, subject.id).role === 'fenced'
}

function copyStep(parts: CopyParts, live: LiveSender): MoveStep {
  return {
    name: 'copy',
    weight: 8,
    cancelable: () => true,
    run: async (step) => {
      // After an update of the agent, this step may run again although this host has begun to stop the guest. The step
      // then does nothing.
      if (!isOwned(parts.context, step)) return
      await step.yieldWhile(step.input.live ? live.copy(step) : copyRunning(parts, step))
    },
    undo: async (step) => {
      if (step.input.live) await live.release(step)
      await forgetSent(parts.context, step)
    },
  }
}

/** Records that the guest leaves this host. The undo starts the guest again, or lets it continue after a live pause. */
function leaveStep(context: BackupContext, live: LiveSender): MoveStep {
  return {
    name: 'leave',
    run: async (step) => leave(context.store, step, step.input.live ? { pausedAtMs: live.pausedAt(step) } : {}),
    undo: ifPresent(context.store, async (record, step) => {
      const { uuid } = record
      if (isFenced(context, step)) return
      const hadLeft = stay(context.store, uuid)
      if (step.input.live) await live.releaseOrEnd(step)
      else if (hadLeft) await bootAgain(context, context.store.get(uuid), step)
      if (mayKeep(context, step)) await restoreAddresses(context, step)
    }),
  }
}

/** Stops the guest, unless it moves live and is paused. */
function stopUnlessLive(context: BackupContext): MoveStep {
  const stop = stopStep(context)
  return {
    ...stop,
    run: async (step) => {
      if (!step.input.live) await stop.run(step)
    },
  }
}

/** Older agents do not know this step's name. An older agent that resumes a live move therefore stops the guest. */
function lastStep(parts: CopyParts, live: LiveSender): MoveStep {
  return {
    name: 'last_changes',
    run: (step) => (step.input.live ? live.finish(step) : copyStopped(parts, step)),
  }
}

function handOverStep(context: BackupContext, live: LiveSender): MoveStep {
  return {
    name: 'hand_over',
    run: async (step) => {
      await withdrawKept(context, step)
      if (step.input.live) await live.handOver(step)
      else handOver(context.store, step)
      const pausedAtMs = readPausedAt(context.store, step.subject.id)
      await step.yieldWhile(awaitOwner(context.store, step))
      if (pausedAtMs !== undefined) step.noteDowntime(Math.max(1, context.now() - pausedAtMs))
    },
  }
}

/**
 * Removes the guest's public addresses from this host before the target can answer for them. Later, the role
 * `handed_over` keeps these addresses off the host, even after a restart of the agent.
 */
async function withdrawKept(context: BackupContext, step: StepContext<MigrateInput>) {
  const { id: uuid } = step.subject
  if (!mayKeep(context, step) || readOwnership(context.store, uuid).role !== 'leaving') return
  await context.network.withdraw(networkOf(context.store.get(uuid), context.config))
}

/** True if the guest keeps public addresses, or has IPv6 addresses in a shared pool, which it possibly keeps. */
function mayKeep({ store, network }: BackupContext, { subject, input }: StepContext<MigrateInput>): boolean {
  if (input.keptIpv4s?.length) return true
  return network.listShared(store.find(subject.id)?.ipv6Addresses ?? []).length > 0
}

/** Adds the addresses to this host again, because the guest stays. If this fails, the network comparison adds them. */
async function restoreAddresses({ store, network, config }: BackupContext, { subject, log }: StepContext<unknown>) {
  try {
    await network.attach(networkOf(store.get(subject.id), config), ['addresses'])
  } catch (err) {
    log.warn({ err }, 'the public addresses of a container that stays could not be set; it is repeated later')
  }
}

/** Removes the guest from this host. A failure is only logged, because the reconciler removes the remains. */
function removal(context: BackupContext): MoveStep {
  const remove = removeStep(context)
  return {
    name: 'remove',
    run: async (step) => {
      if (!isLeft(context, step.subject.id)) return
      await step.yieldWhile(endProcess(context, step))
      try {
        await remove.run(step)
      } catch (err) {
        if (step.signal.aborted) throw err
        step.log.warn({ err }, 'could not remove a container that has moved to another host; it is repeated later')
      }
    },
  }
}

/** Ends the guest's process; retries until this succeeds. The process can be paused and hold the guest's memory. */
async function endProcess({ store, machines }: BackupContext, { subject, signal, log }: StepContext<unknown>) {
  const record = store.find(subject.id)
  if (!record) return
  for (let waitMs = 1000; ; waitMs = Math.min(60_000, 2 * waitMs)) {
    try {
      return await machines.driverOf(record).kill(machines.of(record))
    } catch (err) {
      log.warn({ err }, 'ending the process of a container that has moved to another host failed; trying again')
    }
    await delay(waitMs, undefined, { signal })
  }
}
