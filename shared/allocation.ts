export interface Allocation {
  readonly vcpuMilli: number
  readonly ramMb: number
  readonly diskGb: number
}

export const noAllocation: Allocation = { vcpuMilli: 0, ramMb: 0, diskGb: 0 }

/** Limit of the allocation of each resource, as a multiple of the host's capacity. 0: without limit. */
export interface Ratios {
  readonly cpu: number
  readonly ram: number
  readonly disk: number
}

export type ResourceKind = keyof Ratios

/** Resources that a host has. */
export interface HostSize {
  readonly cpuCores: number
  readonly ramTotalMb: number
  readonly diskTotalGb: number
}

export interface Share {
  readonly kind: ResourceKind
  /** Allocated amount divided by the host's capacity. 1: the allocated amount equals the capacity. */
  readonly share: number
}

const gib = 1024 ** 3

export function addAllocation(sum: Allocation, more: Allocation | undefined): Allocation {
  return {
    vcpuMilli: sum.vcpuMilli + (more?.vcpuMilli ?? 0),
    ramMb: sum.ramMb + (more?.ramMb ?? 0),
    diskGb: sum.diskGb + (more?.diskGb ?? 0),
  }
}

/** Returns how much disk space counts as allocated to a guest: the size of its disk and the data of its snapshots. */
export function countedDiskGb(diskGb: number, snapshotBytes: number): number {
  return diskGb + Math.ceil(snapshotBytes / gib)
}

/** Returns the allocated share of each capacity of a host. If a capacity is unknown, every allocation exceeds it. */
export function planShares(allocated: Allocation, size: HostSize | undefined): Share[] {
  const share = (used: number, total: number | undefined): number => used / Math.max(total ?? 0, Number.MIN_VALUE)
  return [
    { kind: 'cpu', share: share(allocated.vcpuMilli, (size?.cpuCores ?? 0) * 1000) },
    { kind: 'ram', share: share(allocated.ramMb, size?.ramTotalMb) },
    { kind: 'disk', share: share(allocated.diskGb, size?.diskTotalGb) },
  ]
}

/** Finds a resource whose allocation exceeds its ratio. The gateway and the agent use this function. */
export function findExceeded(
  allocated: Allocation,
  size: HostSize | undefined,
  ratios: Ratios,
): ResourceKind | undefined {
  return planShares(allocated, size).find(({ kind, share }) => ratios[kind] > 0 && share / ratios[kind] > 1)?.kind
}
