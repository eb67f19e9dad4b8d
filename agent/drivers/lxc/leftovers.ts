import { existsSync } from 'node:fs'
import type { CgroupLayout } from '../../host/process/cgroup.js'
import { findLiveProcess, killExactly } from '../../host/process/proc.js'
import { run } from '../../host/process/process.js'
import type { LxcRuntimeReader } from './runtime.js'
import { removeGroups } from '../common/remove-groups.js'
import { waitUntil, waitUntilNone } from '../common/wait.js'

/** Traces that a stopped guest may have left on the host. */
export interface Leftovers {
  readonly groups: string[]
  readonly device?: string
}

export function findLeftovers(cgroups: CgroupLayout, name: string, device: string): Leftovers {
  const groups = cgroups.hierarchies
    .flatMap((path) => [`${path}/lxc.payload.${name}`, `${path}/lxc.monitor.${name}`])
    .filter((path) => existsSync(path))
  return existsSync(`/sys/class/net/${device}`) ? { groups, device } : { groups }
}

/**
 * Removes the processes, cgroups and interface of a guest whose monitor was killed. If nothing is left, this only takes
 * a few stat(2) calls. The caller ensures that no monitor runs.
 */
export async function removeLeftovers(
  runtime: LxcRuntimeReader,
  { name, device }: { name: string; device: string },
): Promise<void> {
  const found = findLeftovers(runtime.cgroups, name, device)
  if (found.groups.length > 0) {
    await killPayload(runtime, name)
    await removeGroups(found.groups)
  }
  if (found.device !== undefined) await removeInterface(found.device)
}

/**
 * Deletes the guest's interface. The kernel can delete the interface at the same time, together with the guest's
 * network namespace. In this case, ip(8) exits with code 1 or 2.
 */
async function removeInterface(device: string): Promise<void> {
  const { stderr } = await run('ip', ['link', 'delete', 'dev', device], { okCodes: [0, 1, 2] })
  await waitUntil(() => !existsSync(`/sys/class/net/${device}`), {
    timeoutMs: 5000,
    what: `the removal of the interface ${device} ${stderr.trim()}`.trimEnd(),
  })
}

/** Kills the guest's processes until no new one appears. With many namespaces, this can take tens of seconds. */
async function killPayload(runtime: Pick<LxcRuntimeReader, 'payloadPids'>, name: string): Promise<void> {
  const killAll = (): number => {
    const pids = runtime.payloadPids(name)
    for (const pid of pids) {
      const stat = findLiveProcess(pid)
      if (stat) killExactly(pid, stat.startTime)
    }
    return pids.length
  }
  const what = `the processes of ${name} to end`
  await waitUntilNone(killAll, { timeoutMs: 60_000, stillMs: 20_000, what })
}
