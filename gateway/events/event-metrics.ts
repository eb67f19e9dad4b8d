import { Counter, Gauge, type Registry } from 'prom-client'
import type { EventHub } from './hub.js'

/** Adds metrics for open event streams and for `reset` events. */
export function addEventMetrics(registry: Registry, events: Pick<EventHub, 'listeners' | 'resets'>): void {
  new Gauge({
    name: 'berth_event_streams',
    help: 'Open event streams of this gateway',
    registers: [registry],
    collect() {
      this.set(events.listeners)
    },
  })
  new Counter({
    name: 'berth_event_stream_resets_total',
    help: '`reset` events that this gateway sent to clients that had missed events',
    registers: [registry],
    collect() {
      this.reset()
      this.inc(events.resets)
    },
  })
}
