import { Gauge, type Registry } from 'prom-client'
import { windowStates } from '../fleet/host-windows.js'
import type { Maintenance } from './maintenance.js'

/** Adds a gauge with the number of maintenance windows by state. */
export function addMaintenanceGauge(registry: Registry, maintenance: Pick<Maintenance, 'all'>): void {
  new Gauge({
    name: 'berth_maintenance_windows',
    help: 'Maintenance windows by state; only the newest ended and canceled windows are counted',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      for (const state of windowStates)
        this.set({ state }, maintenance.all.filter((window) => window.state === state).length)
    },
  })
}
