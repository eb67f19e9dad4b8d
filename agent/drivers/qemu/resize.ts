import { conflict } from '../../../shared/errors.js'
import type { GroupFacts } from '../common/group-facts.js'
import type { ResizeResult } from '../contract.js'
import type { Machine } from '../machine.js'
import { growDisk } from './disk.js'
import { planGroupLimits, writeGroupLimits } from './groups.js'
import { findLaunched } from './launched.js'
import type { Machines } from './machines.js'
import type { QemuPaths } from './paths.js'
import { memoryMibOf, parts, processorsOf } from './plan-command.js'
import type { QemuRuntimeReader } from './runtime.js'
import { throttleLimits } from './plan-throttle.js'
import type { QmpConnection } from './qmp/connection.js'
import { objectOf } from './qmp/messages.js'

export interface ResizeContext {
  readonly paths: QemuPaths
  readonly runtime: QemuRuntimeReader
  readonly facts: GroupFacts
  readonly machines: Machines
}

const mib = 1024 ** 2

/** Applies limits. A running guest gets those that can change now. For a stopped guest, only the disk grows. */
export async function resizeMachine(context: ResizeContext, machine: Machine, name: string): Promise<ResizeResult> {
  if (context.runtime.read(name).state === 'running') return resizeRunning(context, machine)
  return { outcome: 'at_next_start', changed: await growDisk(machine.volume, machine.limits.diskBytes) }
}

/**
 * Applies the limits that can change in a running guest: a larger disk, other rates, and processors and memory up to
 * the amount that the guest was started with. Processors are never unplugged, because QEMU would crash at the guest's
 * next reset. The guest gets less processor time instead.
 */
async function resizeRunning(context: ResizeContext, machine: Machine): Promise<ResizeResult> {
  const { paths, facts, machines } = context
  const name = paths.nameOf(machine.id)
  const launched = findLaunched(paths.runOf(name).launched)
  const monitor = await machines.monitor(name)
  const grown = await growDisk(machine.volume, machine.limits.diskBytes)
  const seen = await resizeDisk(monitor, machine)
  const throttled = await setThrottle(monitor, machine)
  const memory = await setMemory(monitor, machine, launched?.memoryMib)
  const bounds = planGroupLimits(bounded(machine, launched?.memoryMib), launched?.acceleration ?? 'tcg')
  const limited = writeGroupLimits(facts, paths.groupOf(name), bounds)
  const later =
    launched !== undefined &&
    (processorsOf(machine.limits) > launched.processors || memoryMibOf(machine.limits) > launched.memoryMib)
  const changed = grown || seen || throttled || memory || limited
  return { outcome: later ? 'at_next_start' : 'applied', changed }
}

/** Raises `memoryBytes` to at least `launchedMib`, because the guest can use all memory that it was started with. */
function bounded(machine: Machine, launchedMib: number | undefined): Machine {
  const memoryBytes = Math.max(machine.limits.memoryBytes, (launchedMib ?? 0) * mib)
  return { ...machine, limits: { ...machine.limits, memoryBytes } }
}

async function resizeDisk(monitor: QmpConnection, { limits: { diskBytes } }: Machine): Promise<boolean> {
  if ((await readDiskSize(monitor)) >= diskBytes) return false
  await monitor.execute('block_resize', { 'node-name': parts.disk, size: diskBytes })
  return true
}

/** Reads the size of the disk in bytes, as the guest sees it. */
async function readDiskSize(monitor: QmpConnection): Promise<number> {
  const nodes = await monitor.execute('query-named-block-nodes', { flat: true })
  const disk = (Array.isArray(nodes) ? nodes : []).map(objectOf).find((node) => node?.['node-name'] === parts.disk)
  const size = objectOf(disk?.['image'])?.['virtual-size']
  if (typeof size !== 'number') throw conflict('machine_refused', 'QEMU did not report the size of the disk')
  return size
}

async function setThrottle(monitor: QmpConnection, { limits }: Machine): Promise<boolean> {
  const path = `/objects/${parts.throttle}`
  const wanted = throttleLimits(limits)
  const has = objectOf(await monitor.execute('qom-get', { path, property: 'limits' }))
  if (Object.entries(wanted).every(([key, value]) => has?.[key] === value)) return false
  await monitor.execute('qom-set', { path, property: 'limits', value: wanted })
  return true
}

async function setMemory(monitor: QmpConnection, { limits }: Machine, launchedMib = Infinity): Promise<boolean> {
  const wanted = Math.min(memoryMibOf(limits), launchedMib) * mib
  const balloon = objectOf(await monitor.execute('query-balloon'))?.['actual']
  const asked = typeof balloon === 'number' && Math.abs(balloon - wanted) < mib
  if (asked) return false
  await monitor.execute('balloon', { value: wanted })
  return true
}
