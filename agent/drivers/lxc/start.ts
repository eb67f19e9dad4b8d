import { rmSync } from 'node:fs'
import { BerthError } from '../../../shared/errors.js'
import { hasCommandSocket, lxcStart, readLxcLog } from '../../host/guest/lxc.js'
import type { Machine } from '../machine.js'
import { removeLeftovers } from './leftovers.js'
import type { LxcPaths } from './paths.js'
import { isRuntimeGone, type LxcRuntime, type LxcRuntimeReader } from './runtime.js'
import { waitUntil } from '../common/wait.js'

export interface LxcStartContext {
  readonly paths: LxcPaths
  readonly runtime: LxcRuntimeReader
  /** Arguments that set up the guest's namespace (support-files.ts). */
  readonly namespace: readonly string[]
  /** Removes the mark file that a hook left when the guest last ended (stopped-events.ts). */
  readonly clearMark: (name: string) => void
}

const settleTimeoutMs = 30_000

/**
 * Starts the guest and returns as soon as its first process runs. Does nothing for a running guest. If another
 * lxc-start is already starting the guest, for example that of a killed agent, waits for that process.
 * @throws {BerthError} `guest_start_failed` with lxc's own reasons
 */
export async function startGuest(context: LxcStartContext, machine: Machine, signal: AbortSignal): Promise<LxcRuntime> {
  const name = context.paths.nameOf(machine.id)
  const settled = await settle(context, name, signal)
  if (settled.state === 'running') return settled
  await removeLeftovers(context.runtime, { name, device: machine.nic.device })
  context.clearMark(name)
  rmSync(context.paths.logOf(name), { force: true })
  return launch(context, name, signal)
}

/** Waits while the guest starts or stops, and returns its state. A guest without a monitor counts as stopped. */
async function settle(context: LxcStartContext, name: string, signal: AbortSignal): Promise<LxcRuntime> {
  const { paths, runtime } = context
  const settled = (): boolean => {
    const now = runtime.read(name)
    return now.state === 'running' || (isRuntimeGone(now) && !hasCommandSocket({ lxcPath: paths.lxcPath, name }))
  }
  await waitUntil(settled, { timeoutMs: settleTimeoutMs, what: `${name} to start or end`, signal })
  return runtime.read(name)
}

async function launch(context: LxcStartContext, name: string, signal: AbortSignal): Promise<LxcRuntime> {
  const { paths, namespace } = context
  const { lxcPath, logOf } = paths
  let cause: unknown
  try {
    await lxcStart({ lxcPath, name }, { logFile: logOf(name), namespace })
  } catch (error) {
    cause = error // this is not a failure yet: another lxc-start may have started the guest
  }
  const result = await settle(context, name, signal)
  if (result.state === 'running') return result
  const reason = readLxcLog(logOf(name)) || 'the first process of the guest ended immediately'
  throw new BerthError('internal', 'guest_start_failed', `start of ${name} failed: ${reason}`, { cause })
}
