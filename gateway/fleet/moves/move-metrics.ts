import { Gauge, type Registry } from 'prom-client'
import type { Operation } from '../../../proto/gen/berth/agent/v1/operation.js'
import type { FleetView, OperationView } from '../contract.js'
import { isEnded } from '../lists/operation-table.js'

/** Durations of an ended live move, in seconds: name of the metric, explanation and value. */
const liveFigures: readonly [string, string, (operation: Operation) => number][] = [
  ['downtime', 'Pause of the virtual machine', ({ downtimeMs }) => downtimeMs / 1000],
  ['duration', 'Duration', ({ startedAtMs, finishedAtMs }) => (finishedAtMs - startedAtMs) / 1000],
]

export function addMoveGauges(registry: Registry, view: FleetView): void {
  const registers = [registry]
  new Gauge({
    name: 'berth_guest_moves',
    help: 'Guests that are moving to another host, by their present host',
    labelNames: ['host'],
    registers,
    collect() {
      this.reset()
      for (const { hostId, operation } of view.operations())
        if (operation.action === 'migrate' && !isEnded(operation)) this.inc({ host: hostId })
    },
  })
  new Gauge({
    name: 'berth_standby_age_seconds',
    help: 'Age of the state of the disk in the copy of a warm standby, by host and id of the guest',
    labelNames: ['host', 'container'],
    registers,
    collect() {
      this.reset()
      for (const { hostId: host, guest } of view.guests())
        if (guest.standby?.takenAtMs)
          this.set({ host, container: String(guest.id) }, Math.max(0, (Date.now() - guest.standby.takenAtMs) / 1000))
    },
  })
  for (const [name, what, secondsOf] of liveFigures)
    new Gauge({
      name: `berth_live_move_${name}_seconds`,
      help: `${what} in the last live move from each host`,
      labelNames: ['host'],
      registers,
      collect() {
        this.reset()
        for (const [host, operation] of findLastLive(view.operations())) this.set({ host }, secondsOf(operation))
      },
    })
}

/** Finds the most recently ended live move of each host. */
function findLastLive(operations: Iterable<OperationView>): ReadonlyMap<string, Operation> {
  const found = new Map<string, Operation>()
  for (const { hostId, operation } of operations) {
    const isLater = operation.finishedAtMs > (found.get(hostId)?.finishedAtMs ?? 0)
    if (operation.downtimeMs > 0 && isEnded(operation) && isLater) found.set(hostId, operation)
  }
  return found
}
