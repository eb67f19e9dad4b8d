import { writeFile } from 'node:fs/promises'
import { readGroupPids, type CgroupLayout } from './cgroup.js'
import { readKernelFile } from './proc.js'

/**
 * Makes the kernel do a slow wait in advance. A process's first move into a cgroup takes 5 to 20 ms, because the kernel
 * waits for an RCU grace period. A move soon after another one does not wait (kernel/rcu/sync.c,
 * cgroup_attach_lock()). A caller that will start a guest can therefore let the wait run in parallel with other work.
 */
export class GroupMoves {
  readonly #own: string | undefined
  #isMoving = false

  constructor(cgroups: CgroupLayout) {
    this.#own = findOwnGroup(cgroups, process.pid)
  }

  /**
   * Moves the agent into the cgroup in which it already is. The kernel waits during this move, so that a later move of
   * a process is fast. Returns at once and never fails. Only one move runs at a time, because each blocks a thread.
   */
  prepare(): void {
    if (this.#own === undefined || this.#isMoving) return
    this.#isMoving = true
    void writeFile(`${this.#own}/cgroup.procs`, `${process.pid}`)
      .catch(() => undefined) // after a failure, the next move just takes longer
      .then(() => (this.#isMoving = false))
  }
}

/**
 * Finds a cgroup of the process, and checks that the cgroup really contains the process. In a cgroup namespace, the
 * kernel sometimes shows a path that is relative to the namespace's root.
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
