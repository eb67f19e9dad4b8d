import { Gauge, type Registry } from 'prom-client'
import { drainedGuestStates } from './drain.js'
import type { Drains } from './drains.js'

/** Adds a gauge with the number of containers in the last drain of each host, by result. */
export function addDrainGauge(registry: Registry, drains: Pick<Drains, 'all'>): void {
  new Gauge({
    name: 'berth_drain_containers',
    help: 'Containers in the last drain of the host, by state of their move, stop or start',
    labelNames: ['host', 'state'],
    registers: [registry],
    collect() {
      this.reset()
      for (const { hostId: host, guests } of drains.all)
        for (const state of drainedGuestStates)
          this.set({ host, state }, guests.filter((guest) => guest.state === state).length)
    },
  })
}
