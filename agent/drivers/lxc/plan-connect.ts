import type { MachineNic } from '../contract.js'
import { planAddresses } from './plan-assign.js'
import { broadcastOf } from './plan-config.js'

/** Commands of ip(8), in this order: each may be the last before a crash. */
export interface ConnectPlan {
  /** On the host: a pair of which the guest has one end; the other is not the guest's interface yet. */
  readonly create: readonly string[]
  /** In the guest's network namespace. */
  readonly inside: readonly string[]
  /** On the host, one request to the kernel: an interface with that name is complete. */
  readonly join: string
}

/** Name of the host's end while the guest's is set up; anti-spoofing takes it for a guest's that nobody knows. */
export function unfinishedDevice(device: string): string {
  return `${device}n`
}

/**
 * The interface of a guest that runs, as lxc makes it at a start.
 * @param pid of its first process
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
      ...planAddresses('dev eth0', nic),
    ],
    join: `link set dev ${unfinished} name ${device} master ${bridge} up`,
  }
}
