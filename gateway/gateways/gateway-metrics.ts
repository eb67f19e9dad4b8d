import { Gauge, type Registry } from 'prom-client'
import { gatewayStates, type Gateways } from './gateways.js'

/** Adds a gauge with the number of gateways by state. It has no values while the store is down. */
export function addGatewayGauge(registry: Registry, gateways: Pick<Gateways, 'list'>): void {
  new Gauge({
    name: 'berth_gateways',
    help: 'Gateways of the fleet by state, and open invitations',
    labelNames: ['state'],
    registers: [registry],
    async collect() {
      this.reset()
      const rows = await gateways.list().catch(() => undefined)
      if (!rows) return
      for (const state of gatewayStates) this.set({ state }, rows.filter((row) => row.state === state).length)
    },
  })
}
