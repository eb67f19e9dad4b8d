import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { GuestRegistry } from '../../../gateway/fleet/placement/guest-registry.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

/** The guest was created by another gateway while this one did not reach the guest's host. */
describe('a container that its host has not reported yet', function () {
  let gateway: TestGateway
  const [uuid, name, id] = [randomUUID(), 'elsewhere', 7001]
  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
    await gateway.fleet.setHostState('host-a', 'offline')
    await new GuestRegistry(gateway.store).claim('host-a', [{ uuid, name, id }])
  })
  after(() => gateway.close())

  const answerTo = async (method: string, path: string, key?: string): Promise<unknown[]> => {
    const { status, body } = await gateway.request(method, `/containers/${path}`, key === undefined ? {} : { key })
    return [status, body.code as string]
  }

  it('leads to the answer “host_offline” instead of “not_found” while its host is offline', async () => {
    for (const ref of [uuid, uuid.toUpperCase(), name.toUpperCase(), id]) {
      expect(await answerTo('GET', String(ref))).to.deep.equal([503, 'host_offline'])
      expect(await answerTo('DELETE', `${ref}/delete`)).to.deep.equal([503, 'host_offline'])
    }
  })

  it('leads to the answer “host_offline” even in a request for several containers', async () => {
    const body = { action: 'delete', containers: [uuid] }
    const { status, body: answer } = await gateway.request('POST', '/batch-action', { body })
    expect([status, answer.code]).to.deep.equal([503, 'host_offline'])
  })

  it('is not revealed to keys for other containers', async () => {
    const key = await gateway.makeKey({ scopes: ['container:read'], container_uuids: [randomUUID()] })
    expect(await answerTo('GET', uuid, key)).to.deep.equal([404, 'not_found'])
  })

  it('does not change the answer “not_found” for an unknown name', async () => {
    expect(await answerTo('GET', 'nobody')).to.deep.equal([404, 'not_found'])
  })

  it('leads to the answer “host_offline” while the gateway’s view lacks it, even if its host is online', async () => {
    const guest = await gateway.fleet.addGuest({ name: 'late' }, 'host-b')
    await new GuestRegistry(gateway.store).claim('host-b', [guest])
    const removed = { $case: 'removed', value: { kind: 'guest', key: guest.uuid } } as const
    gateway.fleet.view.apply(gateway.fleet.view.findState('host-b')!, removed)
    expect(await answerTo('GET', 'late')).to.deep.equal([503, 'host_offline'])
  })

  it('leads to the answer “not_found” after its host has come online again without the container', async () => {
    await gateway.fleet.setHostState('host-a', 'online')
    expect(await answerTo('GET', uuid)).to.deep.equal([404, 'not_found'])
  })
})
