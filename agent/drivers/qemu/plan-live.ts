import type { HostProcessor } from './host-processor.js'
import type { LiveFacts } from './live-facts.js'

/** Facts about the host that would receive the guest. */
export interface LiveTarget extends Pick<LiveFacts, 'version' | 'acceleration' | 'devices' | 'nic'> {
  readonly processor: HostProcessor
  readonly availableBytes: number
  /** Present limits of the guest's memory and processors. The number of processors is rounded up. */
  readonly limitMib: number
  readonly limitProcessors: number
}

const mib = 1024 ** 2

/** Lists the reasons why a running guest cannot continue on the target. Empty: the guest can continue. */
export function planObstacles(guest: LiveFacts, target: LiveTarget): string[] {
  return [
    ...planAcceleration(guest, target),
    ...planVersion(guest.version, target.version),
    ...planNetwork(guest.nic, target.nic),
    ...(target.limitMib < guest.memoryMib ? ['its memory limit was lowered since it was started'] : []),
    ...(target.limitProcessors < guest.processors ? ['its processor limit was lowered since it was started'] : []),
    ...(target.availableBytes < guest.memoryMib * mib
      ? [`the target has only ${Math.floor(target.availableBytes / mib)} MiB of free memory`]
      : []),
  ]
}

function planAcceleration(guest: LiveFacts, target: LiveTarget): string[] {
  if (guest.acceleration !== target.acceleration)
    return [`it runs with ${guest.acceleration}, but the target uses ${target.acceleration}`]
  if (guest.acceleration === 'kvm' && !isSame(guest.processor, target.processor))
    return [describeProcessors(guest.processor, target.processor)]
  // A different private address also changes the hash, because it changes the MAC. `planNetwork` reports this case.
  if (guest.devices !== target.devices && guest.nic.ipv4 === target.nic.ipv4)
    return ['it was started by another version of the agent, or the target cannot provide the same devices']
  return []
}

function isSame(one: HostProcessor, other: HostProcessor): boolean {
  return one.vendor === other.vendor && one.model === other.model && one.flags.join() === other.flags.join()
}

function describeProcessors(guest: HostProcessor, target: HostProcessor): string {
  const missing = guest.flags.filter((flag) => !target.flags.includes(flag))
  const difference = missing.length > 0 ? ` and lacks ${missing.slice(0, 5).join(', ')}` : ''
  return `the processor of the target differs (${target.vendor} ${target.model}, here ${guest.vendor} ${guest.model})${difference}`
}

function planVersion(guest: string, target: string): string[] {
  return isOlder(target, guest) ? [`the target has QEMU ${target}, which is older than ${guest}`] : []
}

function isOlder(one: string, other: string): boolean {
  const [a, b] = [one, other].map((version) => version.split('.').map(Number)) as [number[], number[]]
  const at = a.findIndex((number, index) => number !== (b[index] ?? 0))
  return at >= 0 && a[at]! < (b[at] ?? 0)
}

/** Requires an equal private address, because the guest's own configuration contains this address. */
function planNetwork(guest: LiveFacts['nic'], target: LiveFacts['nic']): string[] {
  if (guest.ipv4 !== target.ipv4) return [`its private address ${guest.ipv4} is not free on the target`]
  const isSameNet = guest.prefixLength === target.prefixLength && guest.gateway === target.gateway
  return isSameNet ? [] : ['the private network of the target is different']
}
