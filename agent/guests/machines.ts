import type { Driver } from '../drivers/contract.js'
import type { DriverKind } from '../drivers/drivers.js'
import type { Machine } from '../drivers/machine.js'
import type { ProcessorPlaces } from './processors/places.js'
import { machineOf, type MachineDefaults } from './record/machine.js'
import type { GuestRecord } from './record/record.js'

export interface MachineParts extends MachineDefaults {
  /** The drivers by kind; undefined for a kind of guests that this host does not run. */
  readonly drivers: Readonly<Record<DriverKind, Driver | undefined>>
  readonly processors: ProcessorPlaces
}

/** Finds the driver of a guest on this host, and the facts about the guest that the driver needs. */
export class GuestMachines {
  constructor(private readonly parts: MachineParts) {}

  get drivers(): Driver[] {
    return Object.values(this.parts.drivers).filter((driver) => driver !== undefined)
  }

  get processors(): ProcessorPlaces {
    return this.parts.processors
  }

  findDriver(kind: DriverKind): Driver | undefined {
    return this.parts.drivers[kind]
  }

  /** Returns the guest's driver. @throws if the host has no such driver, for example after a change of configuration */
  driverOf({ spec: { virtualization } }: GuestRecord): Driver {
    const driver = this.findDriver(virtualization)
    if (!driver) throw new Error(`this host has no driver for guests with the virtualization ${virtualization}`)
    return driver
  }

  /** Returns the facts about the guest that its driver needs. */
  of(record: GuestRecord): Machine {
    return machineOf(record, this.parts)
  }
}
