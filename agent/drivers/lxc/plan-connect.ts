import type { MachineNic } from '../machine.js'
import { planGuestAddresses } from './plan-assign.js'
import { broadcastOf } from './plan-config.js'

/** Commands of ip(8), which run in this order. The agent can crash after any of them. */
export interface ConnectPlan {
  /** Commands on the host that create a pair with one end in the guest. The host's end has a temporary name. */
  readonly create: readonly string[]
  /** Commands in the guest's network namespace. */
  readonly inside: readonly string[]
  /** Last command on the host: in one atomic step, it renames the interface, adds it to the bridge and sets it up. */
  readonly join: string
}

/** Temporary name of a guest's interface on the host. Anti-spoofing rules treat the interface as an unknown guest's. */
export function unfinishedDevice(device: string): string {
  return `${device}n`
}

/**
 * Plans the interface of a running guest, identical to the one that lxc creates at a start.
 * @param pid pid of the guest's first process
 */
export function planConnect(nic: MachineNic, pid: number): ConnectPlan {
  const { device, bridge, mac, ipv4, prefixLength, gateway } = nic
  const unfinished = unfinishedDevice(device)
  return {
    create: [`link add ${unfinished} type veth peer name eth0 address ${mac} netns ${pid}`],
    inside: [
      'link set dev eth0 up',
      `address add ${ipv4}/${prefixLength} brd ${broadcastOf(ipv4, prefixLength)} dev eth0`,
      `route add default via ${gateway} dev eth0`,
      ...planGuestAddresses('dev eth0', nic),
    ],
    join: `link set dev ${unfinished} name ${device} master ${bridge} up`,
  }
}
