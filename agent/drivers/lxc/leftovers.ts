import { existsSync } from 'node:fs'
import { removeGroupTree, type CgroupLayout } from '../../host/cgroup.js'
import { findLiveProcess, killExactly } from '../../host/proc.js'
import { run } from '../../host/process.js'
import type { RuntimeReader } from './runtime.js'
import { waitUntil, waitUntilNone } from './wait.js'

/** What a guest that does not run may have left on the host. */
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
 * Removes what a killed monitor left behind: the guest's processes, groups and interface. Nothing there:
 * costs a few stat(2). The caller has made sure that no monitor runs.
 */
export async function removeLeftovers(
  runtime: RuntimeReader,
  { name, device }: { name: string; device: string },
): Promise<void> {
  const found = findLeftovers(runtime.cgroups, name, device)
  if (found.groups.length > 0) {
    await killPayload(runtime, name)
    await removeGroups(found.groups)
  }
  if (found.device !== undefined) await removeInterface(found.device)
}

/** A zombie keeps its group until its parent, process 1 of the host, takes note of it. */
export async function removeGroups(groups: readonly string[]): Promise<void> {
  await waitUntil(async () => (await Promise.all(groups.map(isRemoved))).every(Boolean), {
    timeoutMs: 15_000,
    what: 'the last processes of ended guests to leave their groups',
  })
}

async function isRemoved(group: string): Promise<boolean> {
  try {
    await removeGroupTree(group)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EBUSY') throw error
  }
  return !existsSync(group)
}

/**
 * The namespace's end takes the pair with it, in its own time: gone by now is as good, be it before ip looks for it
 * (code 1) or after (2).
 */
async function removeInterface(device: string): Promise<void> {
  const { stderr } = await run('ip', ['link', 'delete', 'dev', device], { okCodes: [0, 1, 2] })
  await waitUntil(() => !existsSync(`/sys/class/net/${device}`), {
    timeoutMs: 5000,
    what: `interface ${device} to be gone ${stderr.trim()}`.trimEnd(),
  })
}

/** Killed as often as new ones appear, until none is left. Ends of namespaces take their time: many at once tens of seconds. */
async function killPayload(runtime: Pick<RuntimeReader, 'payloadPids'>, name: string): Promise<void> {
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
