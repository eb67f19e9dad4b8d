import { Counter, type Registry } from 'prom-client'
import type { Balancing } from './balancing.js'

/** Adds a counter of ended automatic moves, by result. Each move is counted by one gateway. */
export function addBalancingCounter(registry: Registry, { results }: Pick<Balancing, 'results'>): void {
  new Counter({
    name: 'berth_automatic_moves_total',
    help: 'Ended moves of automatic balancing, by result, as far as this gateway has recorded them',
    labelNames: ['result'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [result, count] of Object.entries(results)) this.inc({ result }, count)
    },
  })
}
