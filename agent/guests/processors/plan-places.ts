/*
 * A guest runs on as many processors as its limit, rounded up. `nproc` in the guest shows this number, and runtimes
 * create as many threads. A quota limits the processor time. Processors are chosen by the configured limits, as in LXD
 * and Proxmox, so that each processor carries about the same load.
 */

export interface Place {
  /** The processors of the guest, in ascending order. */
  readonly cpus: readonly number[]
  readonly vcpuMilli: number
}

/** Load of each processor in thousandths: the sum of the shares that its guests add (`shareOf`). */
export type Loads = ReadonlyMap<number, number>

/** Returns the number of processors that the guest sees. */
export function countOf(vcpuMilli: number, online: readonly number[]): number {
  return Math.min(online.length, Math.max(1, Math.ceil(vcpuMilli / 1000)))
}

/** Returns the load in thousandths of a processor that the guest adds to each of its processors. */
export function shareOf({ cpus, vcpuMilli }: Place): number {
  return vcpuMilli / cpus.length
}

/** Chooses the processors with the lowest load. */
export function planPlace(vcpuMilli: number, online: readonly number[], loads: Loads): Place {
  const count = countOf(vcpuMilli, online)
  if (count === online.length) return { cpus: online, vcpuMilli }
  const loadOf = (cpu: number): number => loads.get(cpu) ?? 0
  const least = [...online].sort((a, b) => loadOf(a) - loadOf(b) || a - b).slice(0, count)
  return { cpus: least.sort((a, b) => a - b), vcpuMilli }
}

/**
 * Plans the move of one guest from the most loaded processor to the least loaded one. Chooses the guest whose move
 * makes the loads of these two processors as equal as possible.
 * @returns undefined if no move helps
 */
export function planMove(
  places: ReadonlyMap<string, Place>,
  online: readonly number[],
  loads: Loads,
): { readonly uuid: string; readonly place: Place } | undefined {
  const sorted = [...online].sort((a, b) => (loads.get(b) ?? 0) - (loads.get(a) ?? 0))
  const [most, least] = [sorted[0], sorted.at(-1)]
  if (most === undefined || least === undefined) return undefined
  const gap = (loads.get(most) ?? 0) - (loads.get(least) ?? 0)
  const movable = [...places].filter(
    ([, place]) => place.cpus.includes(most) && !place.cpus.includes(least) && shareOf(place) < gap,
  )
  const distance = ([, place]: [string, Place]): number => Math.abs(gap / 2 - shareOf(place))
  const [best] = movable.sort((a, b) => distance(a) - distance(b))
  if (!best) return undefined
  const [uuid, { cpus, vcpuMilli }] = best
  const moved = [...cpus.filter((cpu) => cpu !== most), least].sort((a, b) => a - b)
  return { uuid, place: { cpus: moved, vcpuMilli } }
}
