import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { continueMachine, pausedByMigration, readRunState } from './live-continue.js'
import type { Machines } from './machines.js'
import type { QemuPaths, RunPaths } from './paths.js'
import type { QemuRuntimeReader } from './runtime.js'

export interface ContinueContext {
  readonly paths: QemuPaths
  readonly runtime: QemuRuntimeReader
  readonly machines: Machines
  readonly log: Logger
}

/** Time in ms for which a start tries to continue a guest. */
const continueTimeoutMs = 30_000
/** Pause in ms between attempts to continue a guest. */
const retryMs = 200

/** True if a move to or from this host has paused the guest, or may have paused it. */
export function isPausedByMove({ arriving, leaving }: RunPaths): boolean {
  return existsSync(arriving) || existsSync(leaving)
}

/** Marks a guest that its move is about to pause, or may have paused. Each later start then continues the guest. */
export function markLeaving({ leaving }: RunPaths): void {
  writeFileSync(leaving, '', { mode: 0o600 })
}

/**
 * Lets the guest of an existing QEMU run. A file in the run directory (`arriving` or `leaving`) proves that this QEMU
 * has the guest's present memory. Call this only on the host that owns the guest.
 * @returns false if the guest cannot continue and must be booted
 * @throws if QEMU still refuses after some time; QEMU then still has the memory
 */
export async function continueGuest(context: ContinueContext, name: string): Promise<boolean> {
  const { arriving, leaving } = context.paths.runOf(name)
  if (existsSync(arriving)) {
    // If the result is false, the guest is booted and loses its memory. Booting is therefore the last resort.
    const continues = await continueWithin(context, name).catch(() => false)
    if (continues) rmSync(arriving, { force: true })
    return continues
  }
  if (!existsSync(leaving)) return runsAlready(context, name)
  const continues = await continueWithin(context, name)
  if (continues) rmSync(leaving, { force: true })
  return continues
}

/** False if a move has paused QEMU, or QEMU waits for memory. If QEMU does not answer, its guest counts as running. */
async function runsAlready({ machines }: ContinueContext, name: string): Promise<boolean> {
  const state = await machines
    .monitor(name)
    .then((monitor) => readRunState(monitor))
    .catch(() => '')
  return state !== 'inmigrate' && !pausedByMigration.includes(state)
}

/** @returns false if QEMU has ended, or lacks a part of the memory @throws the last error after `continueTimeoutMs` */
async function continueWithin({ machines, runtime, log }: ContinueContext, name: string): Promise<boolean> {
  for (const deadline = performance.now() + continueTimeoutMs; ;) {
    try {
      return await continueMachine(await machines.monitor(name))
    } catch (err) {
      if (runtime.read(name).state !== 'running') return false
      log.warn({ err, name }, 'a virtual machine could not continue after its move had paused it')
      if (performance.now() > deadline) throw err
      await delay(retryMs)
    }
  }
}
