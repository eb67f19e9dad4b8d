import { existsSync, rmSync } from 'node:fs'
import { findLiveProcess, killExactly } from '../../host/process/proc.js'
import type { CgroupLayout } from '../../host/process/cgroup.js'
import { liftQuota } from '../common/lift-quota.js'
import { removeGroups } from '../common/remove-groups.js'
import { waitUntil } from '../common/wait.js'
import { boundLog } from './bound-log.js'
import type { Machines } from './machines.js'
import type { QemuPaths } from './paths.js'
import type { QemuRuntimeReader } from './runtime.js'

export interface QemuStopContext {
  readonly paths: QemuPaths
  readonly runtime: QemuRuntimeReader
  readonly cgroups: CgroupLayout
}

/**
 * Interval in ms at which the power button is pressed again. A guest that still boots ignores a press. Further presses
 * do not harm a guest that already shuts down.
 */
const repeatMs = 5000
const killTimeoutMs = 30_000

/** Presses the power button until the guest has shut down, or kills the guest after `timeoutMs`. */
export async function stopMachine(
  context: QemuStopContext & { readonly machines: Machines },
  name: string,
  options: { timeoutMs: number; signal: AbortSignal },
): Promise<void> {
  const { machines } = context
  if (options.timeoutMs > 0 && (await pressUntilDown(machines, name, options))) await machines.quit(name)
  await clearMachine(context, name)
}

async function pressUntilDown(
  machines: Machines,
  name: string,
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
): Promise<boolean> {
  const deadline = performance.now() + timeoutMs
  for (let leftMs = timeoutMs; leftMs > 0; leftMs = deadline - performance.now()) {
    const monitor = await machines.monitor(name).catch(() => undefined)
    await monitor?.execute('system_powerdown').catch(() => undefined)
    if (await machines.waitForShutDown(name, { timeoutMs: Math.min(repeatMs, leftMs), signal })) return true
  }
  return false
}

/** Kills the guest's remaining processes, and waits until its processes, interface, cgroups and sockets are gone. */
export async function clearMachine({ paths, runtime, cgroups }: QemuStopContext, name: string): Promise<void> {
  const group = paths.groupOf(name)
  liftQuota(cgroups, group)
  await waitUntil(() => killAll(runtime, name) === 0, {
    timeoutMs: killTimeoutMs,
    what: `the end of the processes of ${name}`,
  })
  const groups = cgroups.hierarchies.map((path) => `${path}/${group}`).filter((path) => existsSync(path))
  if (groups.length > 0) await removeGroups(groups)
  removeRunFiles(paths, name)
}

/**
 * Removes the files of the guest's last run, except three files. QEMU's log is only shortened. The file that marks the
 * guest's end is removed by its reader. A launch-machine.pl whose agent was killed can still use the lock.
 */
function removeRunFiles(paths: QemuPaths, name: string): void {
  const run = paths.runOf(name)
  const sockets = [run.monitor, run.secondMonitor, run.serial, run.agent]
  for (const file of [run.work, run.launched, run.frozen, run.arriving, run.leaving, ...sockets])
    rmSync(file, { recursive: true, force: true })
  boundLog(run.log)
}

function killAll(runtime: QemuRuntimeReader, name: string): number {
  const pids = runtime.pids(name)
  for (const pid of pids) {
    const stat = findLiveProcess(pid)
    if (stat) killExactly(pid, stat.startTime)
  }
  return pids.length
}
