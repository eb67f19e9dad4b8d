import { Counter, Gauge, type Registry } from 'prom-client'
import type { Lease } from './store/lease.js'
import type { Store } from './store/store.js'

export interface StoreMetricSources {
  readonly store: Pick<Store, 'failovers' | 'unconfirmed' | 'readReplication' | 'confirmingReplicas'>
  readonly leases: readonly Pick<Lease, 'name' | 'held' | 'epoch'>[]
}

/** Adds metrics about the store's servers, and about the work that only one gateway does at a time. */
export function addStoreMetrics(registry: Registry, { store, leases }: StoreMetricSources): void {
  addCounter(registry, 'berth_store_failovers_total', 'Changes of the Redis master', () => store.failovers)
  addCounter(
    registry,
    'berth_store_unconfirmed_total',
    'Groups of writes that too few replicas confirmed in time',
    () => store.unconfirmed,
  )
  addReplication(registry, store)
  new Gauge({
    name: 'berth_store_confirming_replicas',
    help: 'Replicas that must confirm each write; 0: writes need no confirmation',
    registers: [registry],
    collect() {
      this.set(store.confirmingReplicas)
    },
  })
  for (const field of ['held', 'epoch'] as const) addLeaseGauge(registry, field, leases)
}

function addCounter(registry: Registry, name: string, help: string, read: () => number): void {
  new Counter({
    name,
    help: `${help} since the gateway started`,
    registers: [registry],
    collect() {
      this.reset()
      this.inc(read())
    },
  })
}

/** Adds gauges for the master's replicas: their number and the lag. Both are absent while the store is down. */
function addReplication(registry: Registry, store: StoreMetricSources['store']): void {
  const lag = new Gauge({
    name: 'berth_store_replication_lag_bytes',
    help: 'Bytes of changes that the slowest replica has not confirmed',
    registers: [registry],
  })
  new Gauge({
    name: 'berth_store_replicas',
    help: 'Replicas that are connected to the Redis master',
    registers: [registry],
    async collect() {
      const read = await store.readReplication().catch(() => undefined)
      this.remove()
      lag.remove()
      if (!read) return
      this.set(read.replicas)
      lag.set(read.lagBytes)
    },
  })
}

const leaseHelp = {
  held: '1 if this gateway does the work, otherwise 0',
  epoch: 'Number of the take-over with which this gateway began the work; absent if another gateway does the work',
} as const

function addLeaseGauge(registry: Registry, field: 'held' | 'epoch', leases: StoreMetricSources['leases']): void {
  new Gauge({
    name: `berth_lease_${field}`,
    help: leaseHelp[field],
    labelNames: ['lease'],
    registers: [registry],
    collect() {
      this.reset()
      for (const { name: lease, ...read } of leases.map(({ name, held, epoch }) => ({ name, held, epoch }))) {
        const value = read[field]
        if (value !== undefined) this.set({ lease }, Number(value))
      }
    },
  })
}
