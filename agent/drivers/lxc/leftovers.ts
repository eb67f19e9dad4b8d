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
 * Removes the traces of a killed monitor: the guest's processes, groups and interface. Costs a few stat(2) calls if
 * there are none. The caller has made sure that no monitor runs.
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
 * The kernel removes the pair with the guest's namespace at some point. So ip may find it missing before (code 1) or
 * after (2) its own search.
 */
async function removeInterface(device: string): Promise<void> {
  const { stderr } = await run('ip', ['link', 'delete', 'dev', device], { okCodes: [0, 1, 2] })
  await waitUntil(() => !existsSync(`/sys/class/net/${device}`), {
    timeoutMs: 5000,
    what: `interface ${device} to be gone ${stderr.trim()}`.trimEnd(),
  })
}

/** Kills processes until no new process appears. Namespaces take time to end: tens of seconds if there are many. */
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
