import { randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import type { Store } from './store.js'

/*
 * Identifies the gateway process that began a request, and checks whether it still lives: by /proc on the same machine,
 * by a short-lived key in the store on others.
 */

const leaseMs = 10_000
const renewEveryMs = 3000

interface ProcessName {
  /** Boot id and pid namespace, within which a pid is meaningful. */
  readonly place: string
  readonly pid: number
  /** Start time in clock ticks since boot, which differs for a reused pid. */
  readonly startTicks: string
}

/** This gateway process, as others can look it up in the store. */
export class GatewayInstance {
  readonly id: string
  #timer: NodeJS.Timeout | undefined

  constructor(private readonly store: Store) {
    const { place, pid, startTicks } = thisProcess()
    this.id = [place, pid, startTicks, randomBytes(4).toString('hex')].join('/')
  }

  /** Begins to renew this process's key in the store. */
  start(): void {
    const renew = () => void this.#renew().catch(() => undefined) // while the store is down no other process can check it either
    this.store.on('up', renew)
    if (this.store.ready()) renew()
    this.#timer ??= setInterval(renew, renewEveryMs).unref()
  }

  /** Deletes the key, so that others can take over at once. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    if (!this.store.ready()) return
    await this.store.run('end the instance', (client) => client.del(this.#leaseKey(this.id))).catch(() => undefined)
  }

  /** @throws {BerthError} `store_unavailable` */
  async isAlive(id: string): Promise<boolean> {
    if (id === this.id) return true
    const local = isAliveHere(id)
    if (local !== undefined) return local
    return (await this.store.run('find an instance', (client) => client.exists(this.#leaseKey(id)))) === 1
  }

  async #renew(): Promise<void> {
    if (!this.store.ready()) return
    await this.store.run('renew the instance', (client) =>
      client.set(this.#leaseKey(this.id), '1', { expiration: { type: 'PX', value: leaseMs } }),
    )
  }

  #leaseKey(id: string): string {
    return this.store.key('instance', id)
  }
}

function thisProcess(): ProcessName {
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  const namespace = readlinkSync('/proc/self/ns/pid')
  return { place: `${boot} ${namespace}`, pid: process.pid, startTicks: readStartTicks(process.pid) ?? '' }
}

/** @returns `undefined` if it ran where this process cannot see it */
export function isAliveHere(id: string): boolean | undefined {
  const [place, pid, startTicks] = id.split('/')
  if (place !== thisProcess().place) return undefined
  return readStartTicks(Number(pid)) === startTicks
}

/** Field 22 of /proc/pid/stat; field 2, the name in parentheses, may contain anything (proc_pid_stat(5)). */
function readStartTicks(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? undefined : fields[19]
  } catch {
    return undefined
  }
}
