import { existsSync } from 'node:fs'
import { removeNamespace } from '../kill.js'
import { sh } from '../sh.js'

export interface SegmentAddresses {
  readonly host: string
  readonly outside: string
  readonly host6?: string
  readonly outside6?: string
}

/** The network outside of the host that runs the tests: a network namespace and a veth pair into it. */
export class PublicSegment {
  /** Name of the host's interface. */
  readonly uplink: string

  /** @param name name of the namespace, unique for every test file, at most 14 characters */
  constructor(
    readonly name: string,
    private readonly addresses: SegmentAddresses,
  ) {
    this.uplink = `${name}0`
  }

  /** Creates the network. If a killed run has left it, it is removed first. */
  make(): void {
    this.remove()
    const { host, outside, host6, outside6 } = this.addresses
    sh('ip', 'netns', 'add', this.name)
    sh('ip', 'link', 'add', this.uplink, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', this.name)
    this.ip('link', 'set', 'lo', 'up')
    join((...args) => sh('ip', ...args), this.uplink, [host, host6])
    join((...args) => this.ip(...args), 'eth0', [outside, outside6])
  }

  remove(): void {
    if (!existsSync(`/run/netns/${this.name}`)) return
    if (existsSync(`/sys/class/net/${this.uplink}`)) sh('ip', 'link', 'delete', this.uplink)
    removeNamespace(this.name)
  }

  /** Command prefix that runs a program in the outside network. */
  get at(): string[] {
    return ['nsenter', `--net=/run/netns/${this.name}`]
  }

  /** Runs ip(8) in the outside network. */
  ip(...args: string[]): string {
    return sh('ip', '-n', this.name, ...args)
  }
}

type Ip = (...args: string[]) => string

function join(ip: Ip, device: string, [ipv4, ipv6]: readonly (string | undefined)[]): void {
  ip('address', 'add', `${ipv4}/24`, 'dev', device)
  if (ipv6 !== undefined) ip('address', 'add', `${ipv6}/64`, 'dev', device, 'nodad')
  ip('link', 'set', device, 'up')
}
