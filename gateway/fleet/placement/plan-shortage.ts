import {
  addAllocation,
  findExceeded,
  type Allocation,
  type HostSize,
  type Ratios,
  type ResourceKind,
} from '../../../shared/allocation.js'
import { BerthError, type ErrorRule } from '../../../shared/errors.js'
import { isPlaced, noPlacement, type PlacementRules } from '../../../shared/placement-rules.js'

interface FullHost {
  readonly host: {
    readonly name: string
    readonly description?: { readonly capacity?: HostSize | undefined } | undefined
  }
  readonly allocated: Allocation
}

interface Amount {
  readonly unit: string
  readonly of: (allocation: Allocation) => number
  readonly total: (size: HostSize) => number
}

const amounts: Readonly<Record<ResourceKind, Amount>> = {
  cpu: { unit: 'vCPUs', of: ({ vcpuMilli }) => vcpuMilli / 1000, total: ({ cpuCores }) => cpuCores },
  ram: { unit: 'MiB of memory', of: ({ ramMb }) => ramMb, total: ({ ramTotalMb }) => ramTotalMb },
  disk: { unit: 'GiB of disk', of: ({ diskGb }) => diskGb, total: ({ diskTotalGb }) => diskTotalGb },
}

/**
 * Makes the error `resource_exhausted` with the rule `host_cpu`, `host_ram` or `host_disk`, and the requested and free
 * amounts: number of vCPUs, MiB, GiB. The overcommit ratio counts as capacity. Only callers that may read hosts get host
 * and amounts.
 * @param best the host with the lowest load, which nevertheless has too little
 */
export function planShortage(
  { host, allocated }: FullHost,
  wanted: Allocation,
  { ratios, rules = noPlacement }: { readonly ratios: Ratios; readonly rules?: PlacementRules | undefined },
): BerthError {
  const which = isPlaced(rules) ? 'no host that the placement rules allow has' : 'no host has'
  const message = `${which} enough free resources for the container`
  const size = host.description?.capacity
  const kind = size && findExceeded(addAllocation(allocated, wanted), size, ratios)
  if (!kind) return new BerthError('exhausted', 'resource_exhausted', message)
  const { unit, of, total } = amounts[kind]
  const free = Math.max(0, Math.floor(10 * (total(size) * ratios[kind] - of(allocated))) / 10)
  const rule: ErrorRule = { name: `host_${kind}`, values: { host: host.name, requested: of(wanted), free } }
  const amount = `${of(wanted)} ${unit} are requested, ${host.name} has ${free} left`
  const options = { rule, messageWithoutHosts: message }
  return new BerthError('exhausted', 'resource_exhausted', `${message}: ${amount}`, options)
}
