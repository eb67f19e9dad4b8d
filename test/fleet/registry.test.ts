import { expect } from 'chai'
import { GuestRegistry } from '../../gateway/fleet/placement/guest-registry.js'
import type { Store } from '../../gateway/store/store.js'
import { BerthError } from '../../shared/errors.js'
import { startTestRedis, type TestRedis } from '../support/gateway/redis.js'

const limits = { vcpuMilli: 1000, ramMb: 512, diskGb: 10 }
/** Places guests on the host `a`. */
const onHostA = {
  isShown: () => false,
  place: () => ({ hostId: 'a', room: { hostId: 'a', limits, untilMs: Infinity }, changes: new Map() }),
}

describe('the reservation of names and ids', function () {
  let redis: TestRedis
  let stores: Store[]
  before(async () => {
    redis = await startTestRedis()
  })
  after(() => redis.stop())

  let registries: GuestRegistry[]
  let run = 0
  beforeEach(async () => {
    const prefix = `btest${++run}:`
    stores = [await redis.openStore(prefix), await redis.openStore(prefix)]
    registries = stores.map((store) => new GuestRegistry(store))
  })

  async function attempt(name: string, operationId: string, gateway = 0): Promise<string | number> {
    try {
      return (await registries[gateway]!.reserve({ name, operationId, ...onHostA })).reservation.id
    } catch (error) {
      return error instanceof BerthError ? error.code : String(error)
    }
  }

  /** All keys in the store except the counter of ids. */
  async function keysLeft(): Promise<string[]> {
    const keys = await stores[0]!.client.sendCommand<string[]>([
      'SCAN',
      '0',
      'MATCH',
      `btest${run}:*`,
      'COUNT',
      '10000',
    ])
    return (keys[1] as unknown as string[]).filter((key) => !key.endsWith('next-guest-id'))
  }

  it('gives a name to only one of 50 concurrent requests, and gives different ids to 50 different names', async () => {
    const same = await Promise.all(Array.from({ length: 50 }, (_, n) => attempt(n % 2 ? 'web' : 'WEB', `o${n}`, n % 2)))
    expect(same.filter((result) => typeof result === 'number')).to.have.length(1)
    expect(same.filter((result) => result === 'name_conflict')).to.have.length(49)
    const ids = await Promise.all(Array.from({ length: 50 }, (_, n) => attempt(`n${n}`, `p${n}`, n % 2)))
    expect(new Set(ids).size).to.equal(50)
  })

  it('is made only once if the same operation requests it 50 times at the same time', async () => {
    const ids = await Promise.all(Array.from({ length: 50 }, (_, n) => attempt('web', 'o', n % 2)))
    expect(new Set(ids)).to.deep.equal(new Set([1]))
    expect((await registries[1]!.findByOperation('o'))?.name).to.equal('web')
  })

  it('can be released for 300 guests of a host by two gateways at the same time, but not for a guest of another host', async () => {
    const names = Array.from({ length: 300 }, (_, n) => `n${n}`)
    const made = await Promise.all(
      names.map((name) => registries[0]!.reserve({ name, operationId: `of-${name}`, ...onHostA })),
    )
    await registries[0]!.claim('b', [{ uuid: '00000000-0000-4000-8000-00000000000b', id: 5000, name: 'other' }])
    const uuids = made.map(({ reservation }) => reservation.uuid)
    const gone = [...uuids, '00000000-0000-4000-8000-00000000000b']
    await Promise.all(registries.flatMap((registry) => [registry.release('a', gone), registry.release('a', gone)]))
    expect(await registries[0]!.findGone(gone)).to.deep.equal(uuids)
    expect((await keysLeft()).toSorted()).to.deep.equal([
      `btest${run}:guest-ids`,
      `btest${run}:guest-name:other`,
      `btest${run}:guests`,
    ])
  })

  it('remembers the last ownership generation of a deleted guest, but not of a guest of a removed host', async () => {
    const [deleted, removed] = ['00000000-0000-4000-8000-00000000000c', '00000000-0000-4000-8000-00000000000d']
    const claims = [
      { uuid: deleted, id: 6000, name: 'deleted', generation: 2 },
      { uuid: removed, id: 6001, name: 'removed', generation: 2 },
    ]
    await registries[0]!.claim('a', claims)
    await registries[0]!.release('a', [deleted])
    await registries[0]!.releaseHost('a')
    const refused = await registries[1]!.claim(
      'b',
      claims.map((claim) => ({ ...claim, generation: 1 })),
    )
    expect([...refused].map(([uuid, { ownerGeneration }]) => [uuid, ownerGeneration])).to.deep.equal([[deleted, 2]])
  })

  it('can be released only by its host, and leaves no key in the store after the release', async () => {
    const { reservation } = await registries[0]!.reserve({ name: 'web', operationId: 'o', ...onHostA })
    await registries[0]!.release('b', [reservation.uuid])
    expect(await attempt('web', 'p')).to.equal('name_conflict')
    await registries[0]!.release('a', [reservation.uuid])
    await registries[0]!.release('a', [reservation.uuid])
    expect(await keysLeft()).to.deep.equal([])
    expect(await attempt('web', 'p')).to.equal(2)
  })

  it('reserves a new name in addition to the present name, until the host reports one of these names', async () => {
    const [own, other] = registries as [GuestRegistry, GuestRegistry]
    const { uuid, id } = (await own.reserve({ name: 'old', operationId: 'o', ...onHostA })).reservation
    await attempt('taken', 'p')
    const refusal = await other.names.reserve(uuid, 'TAKEN').catch((error: unknown) => (error as BerthError).code)
    expect(refusal).to.equal('name_conflict')
    await own.names.reserve(uuid, 'first')
    await other.names.reserve(uuid, 'new')
    expect([await attempt('old', 'q'), await attempt('new', 'r')]).to.deep.equal(['name_conflict', 'name_conflict'])
    expect(await attempt('first', 's'), 'the replaced name').to.be.a('number')
    expect((await other.claim('a', [{ uuid, id, name: 'new' }])).size).to.equal(0)
    expect((await own.find('new'))?.name).to.equal('new')
    expect(await attempt('old', 't'), 'the former name').to.be.a('number')
    await own.names.reserve(uuid, 'refused')
    await own.names.release(uuid, 'refused')
    expect(await attempt('refused', 'u')).to.be.a('number')
    await own.names.reserve(uuid, 'late')
    await own.release('a', [uuid])
    expect([await attempt('new', 'v'), await attempt('late', 'w')].every((made) => typeof made === 'number')).to.equal(
      true,
    )
  })

  it('is free again after some time if it was reserved for a guest that did not get it', async () => {
    const { reservation } = await registries[0]!.reserve({ name: 'web', operationId: 'o', ...onHostA })
    await registries[0]!.names.reserve(reservation.uuid, 'late')
    await registries[1]!.sweep(() => true, 0)
    expect(await attempt('late', 'p')).to.equal('name_conflict')
    await registries[1]!.sweep(
      () => true,
      0,
      ({ newName }) => newName === 'late',
    )
    expect(await attempt('late', 'p')).to.equal(2)
  })

  it('belongs to the first host that reports the guest, and new guests get higher ids than all reported guests', async () => {
    const claims = Array.from({ length: 450 }, (_, n) => ({ uuid: `u${n}`, id: n + 10, name: `Sim-${n}` }))
    expect((await registries[0]!.claim('a', claims)).size).to.equal(0)
    expect((await registries[1]!.claim('a', claims)).size).to.equal(0)
    expect((await registries[1]!.claim('b', claims)).size).to.equal(450)
    expect(await attempt('sim-3', 'o')).to.equal('name_conflict')
    expect(await attempt('new', 'p')).to.equal(460)
    const again = await Promise.all([
      registries[0]!.claim('a', [{ uuid: 'x', id: 900, name: 'race' }]),
      registries[1]!.claim('b', [{ uuid: 'y', id: 901, name: 'race' }]),
    ])
    expect(again.map(({ size }) => size).toSorted()).to.deep.equal([0, 1])
  })

  it('expires after some time if no host reports the guest', async () => {
    for (const name of ['kept', 'lost', 'young']) await attempt(name, name)
    const soon = Date.now() + 1000
    expect(await registries[0]!.sweep(({ name }) => name !== 'lost', 0)).to.deep.equal([])
    const freed = await registries[0]!.sweep(({ name }) => name !== 'lost', soon)
    expect(freed.map(({ name }) => name)).to.deep.equal(['lost'])
    expect(await attempt('lost', 'again')).to.be.a('number')
    await registries[0]!.releaseHost('a')
    expect(await keysLeft()).to.deep.equal([])
  })
})
