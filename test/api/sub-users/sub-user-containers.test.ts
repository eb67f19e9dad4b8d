import { expect } from 'chai'
import { SubUserCalls, type MadeSubUser } from '../../support/gateway/sub-user-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

describe('a change of the containers of a sub-user', function () {
  let gateway: TestGateway
  let calls: SubUserCalls
  let made: MadeSubUser
  const names = ['one', 'two', 'three', 'four', 'five']

  before(async () => {
    gateway = await startTestGateway()
    calls = new SubUserCalls(gateway)
  })
  after(() => gateway.close())
  beforeEach(async () => {
    for (const name of names) await gateway.fleet.addGuest({ name })
    made = await calls.make({ container_names: ['one', 'two'] })
  })
  afterEach(() => calls.clear())

  const stored = async (): Promise<unknown> => (await calls.find(made.id)).container_names as unknown

  it('leaves containers unchanged that it neither adds nor removes', async () => {
    for (const [body, expected] of [
      [{ add_container_names: ['three'] }, ['one', 'two', 'three']],
      [{ add_container_names: ['three', 'one'] }, ['one', 'two', 'three']],
      [{ remove_container_names: ['one', 'four'] }, ['two', 'three']],
      [{ add_container_names: ['one'], remove_container_names: ['two', 'three'], disabled: true }, ['one']],
      [{ add_container_names: [], remove_container_names: null }, ['one']],
      [{ remove_container_names: 'one' }, []],
    ] as const) {
      expect((await calls.change(made.id, body)).container_names, JSON.stringify(body)).to.deep.equal(expected)
      expect(await stored()).to.deep.equal(expected)
    }
  })

  it('keeps the simultaneous changes of other callers', async () => {
    await Promise.all([
      ...['three', 'four', 'five'].map((name) => calls.change(made.id, { add_container_names: [name] })),
      calls.change(made.id, { remove_container_names: ['one'] }),
      calls.change(made.id, { port_mapping_limit: 3 }),
    ])
    expect(await stored()).to.have.members(['two', 'three', 'four', 'five'])
    expect(await calls.find(made.id)).to.include({ port_mapping_limit: 3 })
  })

  it('has no effect and is refused if it contradicts itself or contains a missing container', async () => {
    const invalid = (field: string) => [400, 'invalid_field', field]
    for (const [body, refusal] of [
      [{ container_names: ['one'], add_container_names: ['three'] }, invalid('container_names')],
      [{ container_names: [], remove_container_names: ['one'] }, invalid('container_names')],
      [{ add_container_names: ['one'], remove_container_names: ['one'] }, invalid('remove_container_names')],
      [{ add_container_names: Array.from({ length: 1001 }, () => 'one') }, invalid('add_container_names')],
      [{ add_container_names: ['three', 'nobody'] }, [404, 'not_found', undefined]],
      [{ remove_container_names: ['one', 'nobody'] }, [404, 'not_found', undefined]],
    ] as const) {
      const { status, body: answer } = await gateway.request('PATCH', `/sub-users/${made.id}`, { body })
      expect([status, answer.code, answer.details?.field], JSON.stringify(body).slice(0, 90)).to.deep.equal(refusal)
      expect(await stored()).to.deep.equal(['one', 'two'])
    }
    const { body: row } = await gateway.request('GET', '/containers/one')
    const same = { add_container_names: ['one'], remove_container_names: [row.data.uuid] }
    expect((await gateway.request('PATCH', `/sub-users/${made.id}`, { body: same })).status).to.equal(400)
  })
})
