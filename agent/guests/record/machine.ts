import { hostNamesOf } from '../../../shared/guest-rules.js'
import type { Machine, MachineBoot } from '../../drivers/machine.js'
import type { MachineSettings } from '../../drivers/drivers.js'
import { cdOf } from '../../images/disks/install-cd.js'
import { deviceName } from '../../network/addresses/private-ipv4.js'
import { gateway6 } from '../../network/addresses/plan-host.js'
import type { Volumes } from '../../storage/volumes.js'
import type { GuestRecord } from './record.js'

const mib = 1024 * 1024

const gib = 1024 * mib

const userIdRange = 65_536

export interface MachineDefaults {
  readonly settings: MachineSettings
  readonly bridge: string
  readonly gateway: string
  readonly prefixLength: number
  readonly resolvers: readonly string[]
  /** Prefix of the names of guests' interfaces on the host. */
  readonly interfacePrefix: string
  readonly volumes: Pick<Volumes, 'pathOf' | 'rescuePathOf' | 'imagePathOf'>
  readonly processors: { cpusOf(record: GuestRecord): readonly number[] }
}

/** Returns the guest's boot source with its paths on the host. */
function bootOf(
  { uuid, boot: { mode, image } }: Pick<GuestRecord, 'uuid' | 'boot'>,
  volumes: Pick<Volumes, 'rescuePathOf' | 'imagePathOf'>,
): MachineBoot {
  if (mode === 'cdrom') return { mode, iso: cdOf(volumes.imagePathOf(image)) }
  return mode === 'rescue' ? { mode, volume: volumes.rescuePathOf(uuid) } : { mode }
}

/** Converts a guest's record to the facts that its driver needs. */
export function machineOf(record: GuestRecord, defaults: MachineDefaults): Machine {
  const { userIdBase, pidsMax, swapRatio } = defaults.settings
  const { limits } = record.spec
  const memoryBytes = limits.ramMb * mib
  return {
    uuid: record.uuid,
    id: record.id,
    ...hostNamesOf(record.name),
    volume: defaults.volumes.pathOf(record.uuid),
    boot: bootOf(record, defaults.volumes),
    limits: {
      vcpuMilli: limits.vcpuMilli,
      memoryBytes,
      swapBytes: Math.floor((memoryBytes * swapRatio) / mib) * mib,
      diskBytes: limits.diskGb * gib,
      ioReadBytesPerSec: limits.ioReadMbps * 1_000_000,
      ioWriteBytesPerSec: limits.ioWriteMbps * 1_000_000,
      ioReadsPerSec: limits.ioReadIops ?? 0,
      ioWritesPerSec: limits.ioWriteIops ?? 0,
      cpus: defaults.processors.cpusOf(record),
    },
    isolation: { userIdBase: userIdBase + record.userIdSlot * userIdRange, pidsMax },
    nic: {
      device: deviceName(defaults.interfacePrefix, record.id),
      bridge: defaults.bridge,
      mac: record.mac,
      ipv4: record.ipv4,
      prefixLength: defaults.prefixLength,
      gateway: defaults.gateway,
      ipv6Addresses: record.ipv6Addresses,
      gateway6,
    },
    resolvers: defaults.resolvers,
    devices: record.devices,
  }
}
