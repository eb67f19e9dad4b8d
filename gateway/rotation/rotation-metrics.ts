import { Gauge, type Registry } from 'prom-client'
import { hostsMissing } from './plan-rotation.js'
import { isActive, rotationStates, type FleetRotation } from './rotation.js'

export type RotationSource = Pick<FleetRotation, 'authority' | 'known' | 'facts'>

/** Adds metrics for the end of the CA's validity, and for the progress of its replacement. */
export function addRotationGauges(registry: Registry, rotation: RotationSource): void {
  new Gauge({
    name: 'berth_ca_end_timestamp_seconds',
    help: 'End of the validity of the certificate authority of the fleet in seconds since 1970',
    registers: [registry],
    collect() {
      this.set(rotation.authority.first.notAfterMs / 1000)
    },
  })
  new Gauge({
    name: 'berth_ca_rotation',
    help: '1 for the state of the last replacement of the certificate authority, otherwise 0; absent if there was none',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      this.reset()
      const present = rotation.known?.state
      if (present) for (const state of rotationStates) this.set({ state }, state === present ? 1 : 0)
    },
  })
  new Gauge({
    name: 'berth_ca_rotation_missing_hosts',
    help: 'Hosts that have not confirmed the present state of the replacement of the certificate authority',
    registers: [registry],
    collect() {
      const { known } = rotation
      this.set(isActive(known) ? hostsMissing(known, rotation.facts().hosts).length : 0)
    },
  })
}
