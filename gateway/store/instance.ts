import { randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import type { Store } from './store.js'

/*
 * Records of requests in progress contain the name of the gateway process that runs the request. This file creates
 * these names. It also checks whether a process still runs: on the same host with /proc, and on other hosts with a key
 * in the store. This key expires soon after the process has ended.
 */

const leaseMs = 10_000
const renewEveryMs = 3000

interface ProcessName {
  /** Boot id of the host and id of the pid namespace. Two running processes never have the same place and pid. */
  readonly place: string
  readonly pid: number
  /** Start time in clock ticks since boot. It distinguishes processes that had the same pid one after another. */
  readonly startTicks: string
}

/** This gateway process, registered in the store for the other gateways. */
export class GatewayInstance {
  readonly id: string
  #timer: NodeJS.Timeout | undefined

  constructor(private readonly store: Store) {
    const { place, pid, startTicks } = thisProcess()
    this.id = [place, pid, startTicks, randomBytes(4).toString('hex')].join('/')
  }

  /** Starts to renew the key of this process in the store. */
  start(): void {
    const renew = () => void this.#renew().catch(() => undefined) // a failure is harmless: other gateways cannot read the key at such a time either
    this.store.on('up', renew)
    if (this.store.ready()) renew()
    this.#timer ??= setInterval(renew, renewEveryMs).unref()
  }

  /** Deletes the key of this process, so that other gateways can take over its requests immediately. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    if (!this.store.ready()) return
    await this.store
      .run('release the lease of this gateway process', (client) => client.del(this.#leaseKey(this.id)))
      .catch(() => undefined)
  }

  /** True if the process with this id still runs. @throws {BerthError} `store_unavailable` */
  async isAlive(id: string): Promise<boolean> {
    if (id === this.id) return true
    const local = isAliveHere(id)
    if (local !== undefined) return local
    return (
      (await this.store.run('look up the lease of a gateway process', (client) =>
        client.exists(this.#leaseKey(id)),
      )) === 1
    )
  }

  async #renew(): Promise<void> {
    if (!this.store.ready()) return
    await this.store.run('renew the lease of this gateway process', (client) =>
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

/** True if the process with this id still runs. undefined: it belongs to another host or another pid namespace. */
export function isAliveHere(id: string): boolean | undefined {
  const [place, pid, startTicks] = id.split('/')
  if (place !== thisProcess().place) return undefined
  return readStartTicks(Number(pid)) === startTicks
}

/** Reads field 22 of /proc/pid/stat. Field 2, the name in parentheses, can contain any text (proc_pid_stat(5)). */
function readStartTicks(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? undefined : fields[19]
  } catch {
    return undefined
  }
}
