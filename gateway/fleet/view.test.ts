import { expect } from 'chai'
import fc from 'fast-check'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import { WatchSnapshot } from './snapshot.js'
import { FleetState } from './view.js'

const hostIds = ['a', 'b', 'c'] as const
const uuidOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`

const guests = fc.record({
  uuid: fc.integer({ min: 0, max: 5 }).map(uuidOf),
  id: fc.integer({ min: 1, max: 6 }),
  name: fc.constantFrom('web', 'WEB', 'db', 'Db', 'mail', 'x-1', 'x-2'),
  status: fc.constantFrom('creating', 'running', 'stopped', 'error', 'of tomorrow', ''),
})
const operations = fc.record({
  id: fc.constantFrom('o1', 'o2', 'o3', 'o4'),
  createdAtMs: fc.integer({ min: 0, max: 5 }),
})
const steps = fc.oneof(
  fc.record({ kind: fc.constant('guest' as const), host: fc.constantFrom(...hostIds), guest: guests }),
  fc.record({ kind: fc.constant('gone' as const), host: fc.constantFrom(...hostIds), guest: guests }),
  fc.record({
    kind: fc.constant('all' as const),
    host: fc.constantFrom(...hostIds),
    guests: fc.array(guests, { maxLength: 5 }),
  }),
  fc.record({
    kind: fc.constant('online' as const),
    host: fc.constantFrom(...hostIds),
    online: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant('operation' as const),
    host: fc.constantFrom(...hostIds),
    operation: operations,
  }),
  fc.record({ kind: fc.constant('forget' as const), host: fc.constantFrom(...hostIds) }),
)
type StepOf = typeof steps extends fc.Arbitrary<infer T> ? T : never

function record(id: string) {
  return {
    id,
    version: 1,
    name: id,
    address: `${id}:1`,
    draining: false,
    createdAtMs: 0,
    serials: ['1'],
    certificateNotAfterMs: 1,
  }
}

/** Stores the last report of each host, for the comparison with the fleet view. */
class Model {
  readonly said = new Map<string, Map<string, Guest>>(hostIds.map((id) => [id, new Map()]))
  readonly online = new Map<string, boolean>(hostIds.map((id) => [id, false]))
}

function run(view: FleetState, model: Model, step: StepOf): void {
  const host = view.findState(step.host) ?? view.setHost(record(step.host))
  const said = model.said.get(step.host)!
  switch (step.kind) {
    case 'guest': {
      const guest = Guest.fromPartial(step.guest)
      said.set(guest.uuid, guest)
      return view.apply(host, { $case: 'guest', value: guest })
    }
    case 'gone':
      said.delete(step.guest.uuid)
      return view.apply(host, { $case: 'removed', value: { kind: 'guest', key: step.guest.uuid } })
    case 'all': {
      const snapshot = new WatchSnapshot()
      said.clear()
      for (const one of step.guests.map((guest) => Guest.fromPartial(guest))) {
        snapshot.add({ $case: 'guest', value: one })
        said.set(one.uuid, one)
      }
      return view.replace(host, snapshot)
    }
    case 'online':
      model.online.set(step.host, step.online)
      return view.setOnline(host, step.online)
    case 'operation':
      return view.apply(host, { $case: 'operation', value: Operation.fromPartial(step.operation) })
    case 'forget':
      said.clear()
      model.online.set(step.host, false)
      return view.removeHost(step.host)
  }
}

/** Checks that all shown guests were reported and are in all indexes, and that hidden guests conflict with these. */
function check(view: FleetState, model: Model): void {
  const shown = [...view.guests()]
  const keys = (guest: Guest): string[] => [guest.uuid, String(guest.id), guest.name.toLowerCase()]
  const taken = shown.flatMap(({ guest }) => keys(guest))
  expect(new Set(taken).size, 'uuid, id and name are unique').to.equal(taken.length)
  for (const one of shown) {
    expect(model.said.get(one.hostId)?.get(one.guest.uuid)?.status).to.equal(one.guest.status)
    expect(one.online).to.equal(model.online.get(one.hostId))
    for (const ref of [...keys(one.guest), one.guest.name.toUpperCase()])
      expect(view.findGuest(ref)?.guest, ref).to.equal(one.guest)
  }
  for (const [hostId, said] of model.said)
    for (const guest of said.values()) {
      const isShown = shown.some((one) => one.hostId === hostId && one.guest.uuid === guest.uuid)
      const clashes = keys(guest).some((key) => taken.includes(key))
      expect(isShown || clashes, `${hostId} ${guest.name} is hidden without a reason`).to.equal(true)
      expect(view.findState(hostId)!.conflicts.has(guest.uuid), 'has a warning').to.equal(!isShown)
    }
  const operationTimes = view.operations().map(({ operation }) => operation.createdAtMs)
  expect(operationTimes).to.deep.equal(operationTimes.toSorted((a, b) => b - a))
  for (const found of view.operations()) expect(view.findOperation(found.operation.id)).to.equal(found)
}

describe('the fleet view', () => {
  it('always shows the last reports of the hosts', () => {
    fc.assert(
      fc.property(fc.array(steps, { maxLength: 40 }), (list) => {
        const [view, model] = [new FleetState(), new Model()]
        for (const step of list) {
          run(view, model, step)
          check(view, model)
        }
      }),
      { numRuns: 500 },
    )
  })

  it('gives its guest list a new version number whenever the list changes', () => {
    const view = new FleetState()
    const host = view.setHost(record('a'))
    const seen = [view.guestsVersion]
    const guest = Guest.fromPartial({ uuid: uuidOf(1), id: 1, name: 'web' })
    for (const change of [
      () => view.setOnline(host, true),
      () => view.apply(host, { $case: 'guest', value: guest }),
      () => view.disown(host, guest.uuid, 'of another host'),
      () => view.disown(host, guest.uuid, undefined),
      () => view.setOnline(host, false),
      () => view.removeHost('a'),
    ]) {
      change()
      expect(seen).not.to.include(view.guestsVersion)
      seen.push(view.guestsVersion)
    }
  })

  it('limits the number and the size of the operations, guests and mappings that one host can add', () => {
    const view = new FleetState()
    const host = view.setHost(record('a'))
    for (let n = 0; n < 5100; n++)
      view.apply(host, { $case: 'operation', value: Operation.fromPartial({ id: `o${n}`, createdAtMs: n }) })
    expect(view.operations()).to.have.length(5000)
    expect(view.operations()[0]?.operation.id).to.equal('o5099')
    const long = Guest.fromPartial({ uuid: uuidOf(1), id: 1, name: 'web', statusReason: 'x'.repeat(10_000) })
    view.apply(host, { $case: 'guest', value: long })
    expect(view.findGuest('web')?.guest.statusReason).to.have.length(1000)
    for (const name of ['', '../x', '12', '-x', 'a b', '__proto__'])
      view.apply(host, { $case: 'guest', value: Guest.fromPartial({ uuid: uuidOf(2), id: 2, name }) })
    expect([...view.guests()]).to.have.length(1)
    const portMappings = Array.from({ length: 1000 }, (_, n) => ({
      containerPort: 1,
      hostPort: n,
      protocol: 'tcp',
    }))
    for (let n = 10; n < 200; n++) {
      const value = Guest.fromPartial({ uuid: uuidOf(n), id: n, name: `g${n}`, portMappings })
      view.apply(host, { $case: 'guest', value })
      view.apply(host, { $case: 'guest', value })
    }
    expect([...view.guests()]).to.have.length(132)
    for (let n = 10; n < 200; n++) view.apply(host, { $case: 'removed', value: { kind: 'guest', key: uuidOf(n) } })
    expect(host.mappings).to.equal(0)
    expect(view.findHost('a')?.warnings).to.have.length(1)
  })
})
