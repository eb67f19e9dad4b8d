import type { Driver } from '../drivers/contract.js'
import type { DriverKind } from '../drivers/drivers.js'
import type { Machine } from '../drivers/machine.js'
import type { ProcessorPlaces } from './processors/places.js'
import { machineOf, type MachineDefaults } from './record/machine.js'
import type { GuestRecord } from './record/record.js'

export interface MachineParts extends MachineDefaults {
  /** undefined: this host does not run guests of the kind. */
  readonly drivers: Readonly<Record<DriverKind, Driver | undefined>>
  readonly processors: ProcessorPlaces
}

/** Guests as machines of this host's drivers. */
export class GuestMachines {
  constructor(private readonly parts: MachineParts) {}

  /** The drivers that this host has. */
  get drivers(): Driver[] {
    return Object.values(this.parts.drivers).filter((driver) => driver !== undefined)
  }

  get processors(): ProcessorPlaces {
    return this.parts.processors
  }

  findDriver(kind: DriverKind): Driver | undefined {
    return this.parts.drivers[kind]
  }

  /** @throws if the host has no driver for the guest, for example after a change of configuration */
  driverOf({ spec: { virtualization } }: GuestRecord): Driver {
    const driver = this.findDriver(virtualization)
    if (!driver) throw new Error(`no ${virtualization} driver on this host`)
    return driver
  }

  /** The guest in the drivers' terms. */
  of(record: GuestRecord): Machine {
    return machineOf(record, this.parts)
  }
}
