import { killExactly, readHandledSignals, signalExactly } from '../../host/process/proc.js'
import { hasCommandSocket } from '../../host/guest/lxc.js'
import { liftQuota } from '../common/lift-quota.js'
import { removeLeftovers } from './leftovers.js'
import type { LxcPaths } from './paths.js'
import { isRuntimeGone, type LxcRuntime, type LxcRuntimeReader } from './runtime.js'
import { isSoWithin, waitUntil } from '../common/wait.js'

export interface StopTarget {
  readonly name: string
  readonly device: string
}

export interface LxcStopContext {
  readonly paths: LxcPaths
  readonly runtime: LxcRuntimeReader
}

/** SIGRTMIN+3, which means "halt" to systemd (systemd(1)). glibc reserves the first two real-time signals. */
const systemdHalt = 34 + 3
/** SIGPWR makes BusyBox init, OpenRC and sysvinit power off. */
const sigPwr = 30
/** Time in ms after which a halt signal is sent again, because it can be lost. systemd ignores a repetition. */
const repeatMs = 5000
const killTimeoutMs = 30_000

/** Asks the guest to power off, and kills it after `timeoutMs`. Removes what a stopped guest left behind. */
export async function stopGuest(
  context: LxcStopContext,
  target: StopTarget,
  options: { timeoutMs: number; signal: AbortSignal },
): Promise<void> {
  const ask = askToHalt(context.runtime, target.name)
  const ended = (): boolean => ask() === 'ended'
  const { timeoutMs, signal } = options
  if (timeoutMs > 0 && (await isSoWithin(ended, { timeoutMs, signal }))) return removeLeftovers(context.runtime, target)
  await killGuest(context, target)
}

/**
 * Returns a function that reports if the guest has ended. The function also sends a halt signal to the first process
 * when a signal is due. It repeats the signal for two reasons: the kernel drops signals that an init does not handle
 * yet, and the guest may have rebooted.
 */
function askToHalt(runtime: LxcRuntimeReader, name: string): () => 'asked' | 'ended' {
  let asked = { startTime: -1, atMs: -Infinity }
  return () => {
    const now = runtime.read(name)
    const { init } = now
    cancelRestart(now)
    if (isRuntimeGone(now)) return 'ended'
    // Until the first process executes the guest's init, it is lxc-start, which blocks all signals.
    if (!init || now.state !== 'running') return 'asked'
    const due = asked.startTime !== init.startTime || performance.now() - asked.atMs > repeatMs
    if (!due) return 'asked'
    const signal = findHaltSignal(init.pid)
    // Some inits, such as BusyBox's, wait for signals with sigwait(2). /proc does not show these signals. Such an init
    // gets SIGPWR at each call of this function, until the init has ended.
    signalExactly(init.pid, init.startTime, signal ?? sigPwr)
    if (signal !== undefined) asked = { startTime: init.startTime, atMs: performance.now() }
    return 'asked'
  }
}

function findHaltSignal(initPid: number): number | undefined {
  const handled = readHandledSignals(initPid)
  return [systemdHalt, sigPwr].find((signal) => (handled >> BigInt(signal - 1)) & 1n)
}

/** Kills the guest's first process, so that its other processes end. Waits until the monitor has cleaned up. */
export async function killGuest(context: LxcStopContext, target: StopTarget): Promise<void> {
  const { runtime } = context
  const { name } = target
  liftQuota(runtime.cgroups, `lxc.payload.${name}`)
  const ended = (): boolean => {
    const now = runtime.read(name)
    cancelRestart(now)
    if (now.init) killExactly(now.init.pid, now.init.startTime)
    return isRuntimeGone(now) && !hasCommandSocket({ lxcPath: context.paths.lxcPath, name })
  }
  if (!(await isSoWithin(ended, { timeoutMs: killTimeoutMs / 2 }))) {
    const { monitor } = runtime.read(name)
    if (monitor) killExactly(monitor.pid, monitor.startTime)
    await waitUntil(ended, { timeoutMs: killTimeoutMs / 2, what: `the end of the processes of ${name}` })
  }
  await removeLeftovers(runtime, target)
}

function cancelRestart({ restarters }: LxcRuntime): void {
  for (const { pid, startTime } of restarters) killExactly(pid, startTime)
}
