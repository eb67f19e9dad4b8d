import type { TaskStage } from '../../../shared/task-stages.js'
import { BerthError } from '../../../shared/errors.js'
import type { StepContext } from '../../operations/types.js'
import type { BackupContext } from '../context.js'
import { sortStandbySnapshots } from '../record/standby-ids.js'
import { awaitSettled, takeHidden } from '../snapshots/snapshot-space.js'
import { connectTarget, type TransferTarget } from './connect-target.js'
import { DiskSender } from './disk-sender.js'
import { noteSentHistory, readIsWanted } from './leave.js'
import type { MovedTraffic, MoveInput } from './move-input.js'
import { makeManifest } from './manifest.js'
import { findParent, needsRound, refuseSlow, type SentDisk } from './plan-copy-rounds.js'
import { findRound, sentId, sentPrefix } from './round-ids.js'
import { openTicketKey, refuseShortTicket } from './ticket-key.js'

export interface CopyParts {
  readonly context: BackupContext
  /** Counts the traffic of a guest up to now. */
  readonly readTraffic: (uuid: string) => Promise<MovedTraffic | null>
}

export type Move = StepContext<MoveInput>

const mib = 1024 * 1024
/** Time limit in ms for the transfer while the guest is stopped. A longer transfer fails, and the guest stays here. */
const lastMs = 30 * 60_000
/** Minimum time in ms for which the move's ticket must still be valid when the guest is stopped. */
const ticketNeededMs = 2 * lastMs

/** Sends the snapshots and the disk of a running guest. Then sends increments of the disk until they are small. */
export async function copyRunning({ context }: CopyParts, step: Move): Promise<void> {
  const { id: uuid } = step.subject
  let newest: SentDisk = { bytes: 0, tookMs: 0 }
  await withSender(context, step, { stage: 'copying' }, async (sender) => {
    const has = await sender.list()
    const [kept, standby] = [listKept(context, uuid), await listStandby(context, uuid)]
    for (const [index, id] of kept.entries())
      if (!has.has(id)) await sendNext(sender, has, { id, older: [...standby, ...kept.slice(0, index)] })
    for (const sent: number[] = []; needsRound(sent); sent.push(newest.bytes))
      newest = await sendRound(context, step, sender, has)
    await sendHistory(context, step, sender)
  })
  refuseSlow(newest)
  await checkTarget(context, step)
}

/** Sends the part of the guest's history that the target lacks. @returns false if the target is too old to store it */
function sendHistory({ history }: BackupContext, { subject, operationId }: Move, sender: DiskSender): Promise<boolean> {
  return sender.sendHistory((after) => history.collect(subject.id, after, operationId))
}

/** Sends the changes on a running guest's disk since the last round. @param has snapshots that the target has */
export async function sendRound(
  context: BackupContext,
  step: Move,
  sender: DiskSender,
  has: Set<string>,
): Promise<SentDisk> {
  const startMs = performance.now()
  const { id: uuid } = step.subject
  const older = await listOlder(context, step)
  const id = await takeRound(context, step)
  const bytes = await sendNext(sender, has, { id, older })
  for (const old of await listRounds(context, step)) if (old !== id) await context.volumes.deleteSnapshot(uuid, old)
  return { bytes, tookMs: performance.now() - startMs }
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

/** Control of the last part of a live move, in which the guest is paused instead of stopped. */
export interface PausedEnd {
  /** Aborted when the guest must run again. */
  readonly deadline: AbortSignal
  /** @throws {BerthError} `memory_not_sent` if the guest is no longer paused */
  readonly check: () => Promise<void>
  /** Sends the rest of the memory. Called when the target has the whole disk. */
  readonly sendMemory: () => Promise<void>
}

/**
 * Sends the last increment and the manifest of a stopped guest. When this resolves, the target has the whole guest.
 * @throws {BerthError} `move_too_slow` if the transfer takes longer than `withinMs`
 */
export async function copyStopped(parts: CopyParts, step: Move, withinMs = lastMs): Promise<void> {
  const deadline = AbortSignal.timeout(withinMs)
  await slowAfter(deadline, () => sendLast(parts, step, { deadline, round: 'last' }))
}

/** Like `copyStopped`, but for a paused guest, whose memory is also sent. */
export async function copyPaused(parts: CopyParts, step: Move, paused: PausedEnd): Promise<void> {
  const { deadline } = paused
  await slowAfter(deadline, () => sendLast(parts, step, { deadline, round: 'live-last', paused }))
}

async function slowAfter(deadline: AbortSignal, send: () => Promise<void>): Promise<void> {
  try {
    await send()
  } catch (error) {
    if (!deadline.aborted) throw error
    const message = 'sending the last changes took too long: allow more bandwidth, or stop the container first'
    throw new BerthError('conflict', 'move_too_slow', message, { cause: error })
  }
}

interface LastOptions {
  readonly deadline: AbortSignal
  readonly round: 'last' | 'live-last'
  readonly paused?: PausedEnd
}

async function sendLast(parts: CopyParts, step: Move, { deadline, round, paused }: LastOptions): Promise<void> {
  const { context, readTraffic } = parts
  const { store } = context
  const { id: uuid } = step.subject
  const trafficCount = await readTraffic(uuid)
  const id = sentId(step.operationId, round)
  await withSender(context, step, { stage: 'sending the last changes', deadline }, async (sender) => {
    await paused?.check()
    await sendStill(context, step, { sender, id })
    await paused?.check()
    const { revision } = store.changes
    const hasHistory = await sendHistory(context, step, sender)
    const isWanted = readIsWanted(store, uuid)
    await sender.finish(id, makeManifest(context, store.get(uuid), { trafficCount, isWanted }), paused !== undefined)
    if (hasHistory) noteSentHistory(store, uuid, revision)
    await paused?.sendMemory()
    if (paused) await sender.confirm()
  })
}

/** Sends the disk of a guest that writes nothing now. */
async function sendStill(
  context: BackupContext,
  step: Move,
  { sender, id }: { readonly sender: DiskSender; readonly id: string },
): Promise<void> {
  const { id: uuid } = step.subject
  const { store } = context
  const has = await sender.list()
  await store.mutex.run(uuid, () => takeHidden(context, uuid, id))
  const older = await listOlder(context, step)
  if (!has.has(id)) await sendNext(sender, has, { id, older })
}

/** Returns the snapshots that can be the base of the next increment. The last ones usually have the fewest differences. */
async function listOlder(context: BackupContext, step: Move): Promise<string[]> {
  const { id: uuid } = step.subject
  return [...listKept(context, uuid), ...(await listStandby(context, uuid)), ...(await listRounds(context, step))]
}

/** Returns the snapshots that users see, oldest first. */
function listKept({ store }: BackupContext, uuid: string): string[] {
  return store.get(uuid).snapshots.flatMap(({ id, state }) => (state === 'ready' ? [id] : []))
}

/** Returns the snapshots of the guest's warm standby, oldest first. The host of the standby has the newest of them. */
async function listStandby({ store, volumes }: BackupContext, uuid: string): Promise<string[]> {
  const { standby } = store.get(uuid)
  return standby ? sortStandbySnapshots(await volumes.listSnapshots(uuid), standby.standbyId) : []
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

/** Returns the ids of the hidden snapshots of this move's rounds, oldest first. Includes interrupted rounds. */
export async function listRounds({ volumes }: BackupContext, { subject, operationId }: Move): Promise<string[]> {
  const numberOf = (id: string): number => findRound(operationId, id) ?? 0
  const rounds = (await volumes.listSnapshots(subject.id)).filter((id) => numberOf(id) > 0)
  return rounds.sort((a, b) => numberOf(a) - numberOf(b))
}

async function takeRound(context: BackupContext, step: Move): Promise<string> {
  const { id: uuid } = step.subject
  const last = (await listRounds(context, step)).at(-1)
  const id = sentId(step.operationId, last === undefined ? 1 : findRound(step.operationId, last)! + 1)
  await context.store.mutex.run(uuid, () => takeHidden(context, uuid, id))
  return id
}

/** Runs `work` with a connection to the target host, until `deadline` aborts. The task shows sent bytes and rate. */
export async function withSender<T>(
  context: BackupContext,
  step: Move,
  { stage, deadline = step.signal }: { readonly stage: TaskStage; readonly deadline?: AbortSignal },
  work: (sender: DiskSender) => Promise<T>,
): Promise<T> {
  const { subject, input } = step
  const socket = await connectTarget(
    context.config.state_dir,
    targetOf(context, step),
    AbortSignal.any([step.signal, deadline]),
  )
  const usedBytes = (await context.volumes.usage([subject.id])).get(subject.id) ?? 0
  const startMs = performance.now()
  const onSent = (bytes: number): void => {
    const rate = bytes / mib / Math.max(0.001, (performance.now() - startMs) / 1000)
    step.report(
      Math.min(0.99, bytes / Math.max(1, usedBytes)),
      `${stage}: ${Math.round(bytes / mib)} MiB, ${rate.toFixed(1)} MiB/s`,
    )
  }
  const sender = new DiskSender(socket, {
    transfers: context.transfers,
    uuid: subject.id,
    bandwidthMbps: input.bandwidthMbps,
    onSent,
  })
  try {
    return await work(sender)
  } finally {
    sender.close()
  }
}

/** Returns the address of the target's agent, and the ticket that permits the connection. */
export function targetOf(context: BackupContext, { subject, input }: Move): TransferTarget {
  const { toHostId: hostId, toAddress: address, toSerials: serials, ticket } = input
  return { hostId, address, serials, ticket, key: openTicketKey(context, subject.id, input.ticketKey) }
}
