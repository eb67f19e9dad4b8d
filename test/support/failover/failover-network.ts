import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { removeNamespace } from '../kill.js'
import { sh } from '../sh.js'

const prefix = '192.0.2'
const bridge = 'btestfol'
const table = 'btestfol'

/** Address of the process of the test. */
export const observer = `${prefix}.254`

/** A network namespace with one address. */
export interface FailoverMachine {
  readonly namespace: string
  readonly host: string
}

/**
 * A network segment of machines. Each machine is a network namespace with a veth pair to a bridge. Rules on the bridge
 * drop all packets between machines that are cut off from each other. Connections then hang, as with a broken cable.
 * The process must be in a network namespace of its own.
 */
export class FailoverNetwork {
  /** Bridge and first three numbers of the addresses, for hosts that add themselves. */
  readonly segment = { bridge, prefix }
  readonly #namespaces: string[] = []

  start(): void {
    if (sh('ip', '-oneline', 'link', 'show', 'lo', 'up') !== '')
      throw new Error('this process must be in a network namespace of its own: unshare --net --mount')
    sh('ip', 'link', 'set', 'lo', 'up')
    sh('ip', 'link', 'add', bridge, 'type', 'bridge')
    sh('ip', 'address', 'add', `${observer}/24`, 'dev', bridge)
    sh('ip', 'link', 'set', bridge, 'up')
    const drop = 'ip saddr . ip daddr @cut drop'
    nft(`
      table bridge ${table} {
        set cut { type ipv4_addr . ipv4_addr; }
        chain arriving { type filter hook prerouting priority -300; ${drop}; }
        chain own { type filter hook output priority -300; ${drop}; }
      }`)
  }

  /** @param number last number of the machine's address */
  addMachine(name: string, number: number): FailoverMachine {
    const namespace = `btestfol-${name}`
    const [device, host] = [`fol${number}`, `${prefix}.${number}`]
    if (existsSync(`/run/netns/${namespace}`)) sh('ip', 'netns', 'delete', namespace) // left by a killed run
    sh('ip', 'netns', 'add', namespace)
    this.#namespaces.push(namespace)
    sh('ip', 'link', 'add', device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace)
    sh('ip', 'link', 'set', device, 'master', bridge, 'up')
    sh('ip', '-n', namespace, 'address', 'add', `${host}/24`, 'dev', 'eth0')
    for (const link of ['lo', 'eth0']) sh('ip', '-n', namespace, 'link', 'set', link, 'up')
    return { namespace, host }
  }

  /** Cuts all addresses in `some` off from all addresses in `others`, until `heal` is called. */
  cut(some: readonly string[], others: readonly string[]): void {
    const pairs = some.flatMap((one) => others.filter((other) => other !== one).map((other) => [one, other]))
    const elements = pairs.flatMap(([one, other]) => [`${one} . ${other}`, `${other} . ${one}`])
    nft(`add element bridge ${table} cut { ${[...new Set(elements)].join(', ')} }`)
  }

  heal(): void {
    nft(`flush set bridge ${table} cut`)
  }

  stop(): void {
    for (const namespace of this.#namespaces) removeNamespace(namespace)
    sh('ip', 'link', 'delete', bridge)
    nft(`delete table bridge ${table}`)
  }
}

function nft(text: string): void {
  execFileSync('nft', ['-f', '-'], { input: text })
}
