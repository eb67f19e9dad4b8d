import { expect } from 'chai'
import { ProcessorPlaces } from './places.js'

const four = [0, 1, 2, 3]
const guest = (uuid: string, vcpuMilli: number, wanted: 'running' | 'stopped' = 'running') => ({
  uuid,
  wanted,
  spec: { limits: { vcpuMilli } },
})

describe('the processors of guests', () => {
  for (const [vcpuMilli, count] of [
    [50, 1],
    [1000, 1],
    [1001, 2],
    [3500, 4],
    [4000, 4],
    [64_000, 4],
  ] as const)
    it(`are ${count} of the host’s four processors for the processor limit ${vcpuMilli / 1000}`, () =>
      expect(new ProcessorPlaces(() => four).cpusOf(guest('a', vcpuMilli))).to.have.length(count))

  it('are the processors with the lowest load', () => {
    const places = new ProcessorPlaces(() => four)
    const cpus = ['a', 'b', 'c', 'd', 'e'].map((uuid) => places.cpusOf(guest(uuid, 1000)).join())
    expect(cpus).to.deep.equal(['0', '1', '2', '3', '0'])
    expect(places.cpusOf(guest('f', 2000))).to.deep.equal([1, 2])
  })

  it('stay the same if a new limit needs the same number of processors', () => {
    const places = new ProcessorPlaces(() => four)
    const first = places.cpusOf(guest('a', 1000))
    places.cpusOf(guest('b', 1000))
    expect(places.cpusOf(guest('a', 600))).to.equal(first)
    expect(places.cpusOf(guest('a', 1500))).to.deep.equal([0, 2])
  })

  it('become free for other guests when their guest is deleted or stopped', () => {
    const places = new ProcessorPlaces(() => [0, 1])
    places.cpusOf(guest('a', 1000))
    places.cpusOf(guest('a', 1000, 'stopped'))
    expect(places.cpusOf(guest('b', 1000))).to.deep.equal([0])
    places.forget('b')
    expect(places.cpusOf(guest('c', 1000))).to.deep.equal([0])
  })

  it('are balanced again after other guests have ended, and do not change afterwards', () => {
    const places = new ProcessorPlaces(() => [0, 1])
    const all = ['a', 'b', 'c', 'd', 'e', 'f'].map((uuid) => guest(uuid, 1000))
    for (const one of all) places.cpusOf(one)
    for (const gone of ['b', 'd', 'f']) places.forget(gone)
    expect(places.balance()).to.have.length(1)
    const left = all.filter(({ uuid }) => ['a', 'c', 'e'].includes(uuid))
    expect(left.map((one) => places.cpusOf(one).join()).sort()).to.deep.equal(['0', '0', '1'])
    expect(places.balance()).to.deep.equal([])
  })

  it('are chosen so that the vCPU limits are spread evenly over all processors after any changes', () => {
    const places = new ProcessorPlaces(() => four)
    let seed = 7
    const random = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below
    const live = new Map<string, number>()
    for (let at = 0; at < 2000; at++) {
      const uuid = String(random(200))
      const vcpuMilli = 500 * (1 + random(6))
      if (live.delete(uuid)) places.forget(uuid)
      else live.set(uuid, vcpuMilli)
      if (live.has(uuid)) places.cpusOf(guest(uuid, vcpuMilli))
    }
    while (places.balance().length > 0);
    const loads = new Map<number, number>()
    for (const [uuid, vcpuMilli] of live) {
      const cpus = places.cpusOf(guest(uuid, vcpuMilli))
      for (const cpu of cpus) loads.set(cpu, (loads.get(cpu) ?? 0) + vcpuMilli / cpus.length)
    }
    expect(Math.max(...loads.values()) - Math.min(...loads.values())).to.be.at.most(1000)
  })

  it('are replaced when they go offline, and are used when they come online', () => {
    let online: readonly number[] = four
    const places = new ProcessorPlaces(() => online)
    const [small, large] = [guest('small', 1000), guest('large', 4000)]
    expect(places.cpusOf(large)).to.deep.equal(four)
    expect(places.cpusOf(small)).to.deep.equal([0])
    online = [1, 3]
    expect(places.balance()).to.have.members(['small', 'large'])
    expect([places.cpusOf(large), places.cpusOf(small)]).to.deep.equal([[1, 3], [1]])
    online = four
    expect(places.balance()).to.deep.equal(['large'])
    expect([places.cpusOf(large), places.cpusOf(small)]).to.deep.equal([four, [1]])
  })

  it('stay the same for running guests that already have the right number of processors', () => {
    const places = new ProcessorPlaces(() => four)
    const records = [guest('a', 1000), guest('b', 1000), guest('c', 2000, 'stopped')]
    const found = new Map<string, readonly number[]>([
      ['a', [3]],
      ['b', four],
      ['c', [0, 1]],
    ])
    places.adopt(found, records)
    expect([places.cpusOf(records[0]!), places.cpusOf(records[1]!)]).to.deep.equal([[3], [0]])
  })
})
