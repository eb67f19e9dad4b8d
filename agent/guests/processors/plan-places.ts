/*
 * Which processors a guest runs on: as many as it was sold, a part of one counts as one. That is what `nproc` shows in
 * it and what runtimes make threads by; how much of them it gets is bounded by its quota. Places are chosen by what was
 * sold, as LXD and Proxmox do, so that each processor has about as much of it as any other.
 */

export interface Place {
  /** In order. */
  readonly cpus: readonly number[]
  readonly vcpuMilli: number
}

/** Thousandths sold, by processor. */
export type Loads = ReadonlyMap<number, number>

/** Processors that show in the guest. */
export function countOf(vcpuMilli: number, online: readonly number[]): number {
  return Math.min(online.length, Math.max(1, Math.ceil(vcpuMilli / 1000)))
}

/** What a guest adds to each of its processors. */
export function shareOf({ cpus, vcpuMilli }: Place): number {
  return vcpuMilli / cpus.length
}

/** Those with the least on them. */
export function planPlace(vcpuMilli: number, online: readonly number[], loads: Loads): Place {
  const count = countOf(vcpuMilli, online)
  if (count === online.length) return { cpus: online, vcpuMilli }
  const loadOf = (cpu: number): number => loads.get(cpu) ?? 0
  const least = [...online].sort((a, b) => loadOf(a) - loadOf(b) || a - b).slice(0, count)
  return { cpus: least.sort((a, b) => a - b), vcpuMilli }
}

/**
 * The move of one guest from the processor with most on it to the one with least that brings them closest together;
 * undefined where none does.
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
