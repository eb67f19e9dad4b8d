import { BerthError } from '../../../shared/errors.js'
import type { StepContext } from '../../operations/types.js'
import type { BackupContext } from '../context.js'
import { awaitSettled, takeHidden } from '../snapshots/snapshot-space.js'
import { connectTarget } from './connect-target.js'
import { DiskSender } from './disk-sender.js'
import { readIsWanted } from './leave.js'
import type { MovedTraffic, MoveInput } from './move-input.js'
import { makeManifest } from './manifest.js'
import { openTicketKey, refuseShortTicket } from './ticket-key.js'
import { findParent, needsRound, refuseSlow } from './plan-copy-rounds.js'

export interface CopyParts {
  readonly context: BackupContext
  /** Counts the traffic of a guest up to now. */
  readonly readTraffic: (uuid: string) => Promise<MovedTraffic | null>
}

type Move = StepContext<MoveInput>

const mib = 1024 * 1024
/** Time limit in ms for the transfer while the guest is stopped. A longer transfer fails, and the guest stays here. */
const lastMs = 30 * 60_000
/** Minimum time in ms for which the move's ticket must still be valid when the guest is stopped. */
const ticketNeededMs = 2 * lastMs

/** Returns the id of a hidden snapshot of a move. It begins with this move's id, so other moves do not use it. */
function sentId(operationId: string, round: number | 'last'): string {
  return `${sentPrefix(operationId)}${round}`
}

function sentPrefix(operationId: string): string {
  return `move-${operationId.slice(0, 8)}-`
}

/** Sends the snapshots and the disk of a running guest. Then sends increments until an increment is small. */
export async function copyRunning({ context }: CopyParts, step: Move): Promise<void> {
  const { id: uuid } = step.subject
  let newest = { bytes: 0, tookMs: 0 }
  await withSender(context, step, { stage: 'copying' }, async (sender) => {
    const has = await sender.list()
    const kept = context.store.get(uuid).snapshots.flatMap(({ id, state }) => (state === 'ready' ? [id] : []))
    for (const [index, id] of kept.entries())
      if (!has.has(id)) await sendNext(sender, has, { id, older: kept.slice(0, index) })
    for (const sent: number[] = []; needsRound(sent);) {
      const older = [...kept, ...(await listRounds(context, step))]
      const id = await takeRound(context, step)
      const startMs = performance.now()
      const bytes = await sendNext(sender, has, { id, older })
      newest = { bytes, tookMs: performance.now() - startMs }
      sent.push(bytes)
      for (const old of await listRounds(context, step)) if (old !== id) await context.volumes.deleteSnapshot(uuid, old)
    }
  })
  refuseSlow(newest)
  await checkTarget(context, step)
}

/**
 * Checks, on a new connection, that the target accepts the ticket and the guest's present settings. Without this check,
 * the move would fail only after the guest was stopped.
 */
async function checkTarget(context: BackupContext, step: Move): Promise<void> {
  refuseShortTicket(step.input.ticket, { nowMs: context.now(), neededMs: ticketNeededMs })
  const manifest = makeManifest(context, context.store.get(step.subject.id), { trafficCount: null, isWanted: false })
  await withSender(context, step, { stage: 'checking the target' }, (sender) => sender.check(manifest))
}

/**
 * Sends the last increment and the guest's manifest. When this resolves, the target has the whole guest.
 * @throws {BerthError} `move_too_slow` if it takes too long
 */
export async function copyStopped(parts: CopyParts, step: Move, withinMs = lastMs): Promise<void> {
  const deadline = AbortSignal.timeout(withinMs)
  try {
    await sendLast(parts, step, deadline)
  } catch (error) {
    if (!deadline.aborted) throw error
    const message = 'sending the last changes took too long: allow more bandwidth, or stop the container first'
    throw new BerthError('conflict', 'move_too_slow', message, { cause: error })
  }
}

async function sendLast({ context, readTraffic }: CopyParts, step: Move, deadline: AbortSignal): Promise<void> {
  const { store } = context
  const { id: uuid } = step.subject
  const trafficCount = await readTraffic(uuid)
  const send = async (sender: DiskSender): Promise<void> => {
    const has = await sender.list()
    const id = sentId(step.operationId, 'last')
    await store.mutex.run(uuid, () => takeHidden(context, uuid, id))
    const record = store.get(uuid)
    const older = [...record.snapshots.map((snapshot) => snapshot.id), ...(await listRounds(context, step))]
    if (!has.has(id)) await sendNext(sender, has, { id, older })
    await sender.finish(id, makeManifest(context, record, { trafficCount, isWanted: readIsWanted(store, uuid) }))
  }
  await withSender(context, step, { stage: 'sending the last changes', deadline }, send)
}

/** Deletes the hidden snapshots that a move has taken and sent to the target. */
export async function forgetSent(context: BackupContext, step: Move): Promise<void> {
  const { id: uuid } = step.subject
  const prefix = sentPrefix(step.operationId)
  const sent = (await context.volumes.listSnapshots(uuid)).filter((id) => id.startsWith(prefix))
  for (const id of sent) await context.volumes.deleteSnapshot(uuid, id)
  if (sent.length > 0 && context.store.find(uuid)) await awaitSettled(context, uuid, step.signal)
}

async function sendNext(
  sender: DiskSender,
  has: Set<string>,
  { id, older }: { readonly id: string; readonly older: readonly string[] },
): Promise<number> {
  const bytes = await sender.sendDisk(id, findParent(older, has))
  has.add(id)
  return bytes
}

/** Returns the ids of the hidden snapshots of this move's rounds, oldest first. Interrupted rounds are included. */
async function listRounds({ volumes }: BackupContext, { subject, operationId }: Move): Promise<string[]> {
  const prefix = sentPrefix(operationId)
  const rounds = (await volumes.listSnapshots(subject.id)).filter((id) => id.startsWith(prefix) && !id.endsWith('last'))
  return rounds.sort((a, b) => roundOf(a) - roundOf(b))
}

async function takeRound(context: BackupContext, step: Move): Promise<string> {
  const { id: uuid } = step.subject
  const last = (await listRounds(context, step)).at(-1)
  const id = sentId(step.operationId, last === undefined ? 1 : roundOf(last) + 1)
  await context.store.mutex.run(uuid, () => takeHidden(context, uuid, id))
  return id
}

function roundOf(id: string): number {
  return Number(id.slice(id.lastIndexOf('-') + 1))
}

/** Runs requests on a connection to the target until `deadline` is aborted. The task shows bytes and rate. */
async function withSender(
  context: BackupContext,
  step: Move,
  { stage, deadline = step.signal }: { readonly stage: string; readonly deadline?: AbortSignal },
  work: (sender: DiskSender) => Promise<void>,
): Promise<void> {
  const { subject, input } = step
  const signal = AbortSignal.any([step.signal, deadline])
  const { toHostId: hostId, toAddress: address, toSerials: serials, ticket, bandwidthMbps } = input
  const key = openTicketKey(context, subject.id, input.ticketKey)
  const socket = await connectTarget(context.config.state_dir, { hostId, address, serials, ticket, key }, signal)
  const usedBytes = (await context.volumes.usage([subject.id])).get(subject.id) ?? 0
  const startMs = performance.now()
  const onSent = (bytes: number): void => {
    const rate = bytes / mib / Math.max(0.001, (performance.now() - startMs) / 1000)
    step.report(
      Math.min(0.99, bytes / Math.max(1, usedBytes)),
      `${stage}: ${Math.round(bytes / mib)} MiB, ${rate.toFixed(1)} MiB/s`,
    )
  }
  const sender = new DiskSender(socket, { transfers: context.transfers, uuid: subject.id, bandwidthMbps, onSent })
  try {
    await work(sender)
  } finally {
    sender.close()
  }
}
