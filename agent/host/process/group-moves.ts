import { writeFile } from 'node:fs/promises'
import { readGroupPids, type CgroupLayout } from './cgroup.js'
import { readKernelFile } from './proc.js'

/**
 * After a pause, the first move of a process into a group waits until every processor has been through the scheduler, 5
 * to 20 ms. Another move within about that time does not wait (kernel/rcu/sync.c, below cgroup_attach_lock()). So a
 * caller that is about to start a guest can trigger the wait in parallel with other work.
 */
export class GroupMoves {
  readonly #own: string | undefined
  #isMoving = false

  constructor(cgroups: CgroupLayout) {
    this.#own = findOwnGroup(cgroups, process.pid)
  }

  /**
   * Moves the agent into its present group. Returns at once and never fails. One move runs at a time, because each
   * takes a thread.
   */
  prepare(): void {
    if (this.#own === undefined || this.#isMoving) return
    this.#isMoving = true
    void writeFile(`${this.#own}/cgroup.procs`, `${process.pid}`)
      .catch(() => undefined) // then the next move waits, as without this call
      .then(() => (this.#isMoving = false))
  }
}

/**
 * Finds a group that certainly contains the process: for a process in its own namespace, the kernel's path may belong
 * to another tree.
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
