import { writeFile } from 'node:fs/promises'
import { readGroupPids, type CgroupLayout } from './cgroup.js'
import { readKernelFile } from './proc.js'

/**
 * The first process in a while that is moved into a group waits until every processor has been through the scheduler, 5
 * to 20 ms; one that follows within about that time does not wait (kernel/rcu/sync.c, below cgroup_attach_lock()). So
 * somebody who is about to start a guest has the wait begin beside other work.
 */
export class GroupMoves {
  readonly #own: string | undefined
  #isMoving = false

  constructor(cgroups: CgroupLayout) {
    this.#own = findOwnGroup(cgroups, process.pid)
  }

  /** Moves the agent to where it is. Returns at once and never fails; one at a time, for each takes a thread. */
  prepare(): void {
    if (this.#own === undefined || this.#isMoving) return
    this.#isMoving = true
    void writeFile(`${this.#own}/cgroup.procs`, `${process.pid}`)
      .catch(() => undefined) // then the next move waits, as it would have
      .then(() => (this.#isMoving = false))
  }
}

/**
 * A group that has the process for certain: what the kernel says of a process in a namespace of its own may be a path of
 * another tree.
 */
export function findOwnGroup({ controllers, unified }: CgroupLayout, pid: number): string | undefined {
  const text = readKernelFile(`/proc/${pid}/cgroup`) ?? ''
  for (const [, named = '', path = ''] of text.matchAll(/^\d+:([^:]*):(.*)$/gm)) {
    const root = named === '' ? unified : controllers.get(named.split(',')[0]!)
    if (root === undefined) continue
    const group = path === '/' ? root : `${root}${path}`
    if (readGroupPids(group).includes(pid)) return group
  }
  return undefined
}
