import { expect } from 'chai'
import { storeUnavailable } from '../../../gateway/store/connection.js'
import type { SubUsers } from '../../../gateway/sub-users/sub-users.js'
import { killUnder } from '../../support/gateway/redis.js'
import { SubUserCalls, type MadeSubUser } from '../../support/gateway/sub-user-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

type Step = 'create' | 'rotate' | 'update' | 'remove'

describe('a request about a sub-user while the store fails', function () {
  let gateway: TestGateway
  let calls: SubUserCalls
  beforeEach(async () => {
    gateway = await startTestGateway()
    calls = new SubUserCalls(gateway)
    await gateway.fleet.addGuest({ name: 'own' })
  })
  afterEach(() => gateway.close())

  const back = () => waitFor(() => gateway.store.ready(), { what: 'the store is back' })
  /** Kills the store after the next call of `step`. If `tell` is false, an error replaces the result of the call. */
  const dieAfter = (step: Step, tell: boolean): void => {
    const { subUsers } = gateway.access
    const work = subUsers[step].bind(subUsers) as (...args: unknown[]) => Promise<unknown>
    Object.assign(subUsers, {
      [step]: async (...args: unknown[]) => {
        Object.assign(subUsers, { [step]: work })
        const done = await work(...args)
        await killUnder(gateway.store, gateway.redis)
        if (!tell) throw storeUnavailable(step)
        return done
      },
    } as Partial<SubUsers>)
  }
  const send = async (method: 'POST' | 'PATCH' | 'DELETE', path: string, body?: object, key = 'order') => {
    await back()
    const headers = method === 'POST' ? { 'idempotency-key': key } : {}
    return gateway.request(method, path, { headers, ...(body && { body }) })
  }
  const opens = async ({ id, password }: MadeSubUser): Promise<boolean> => {
    const { accounts, passwords } = gateway.access.accounts
    return passwords.matches((await accounts.find(Number(id)))?.passwordHash, password, {
      account: id,
      source: '',
    })
  }
  const count = async (): Promise<number> => ((await gateway.request('GET', '/sub-users')).body.data as object[]).length

  for (const tell of [true, false])
    it(`creates only one sub-user if it is repeated because its first answer ${tell ? 'was not stored' : 'did not arrive'}`, async () => {
      dieAfter('create', tell)
      const first = await send('POST', '/sub-user/create', { container_name: 'own' })
      expect(first.status, first.text).to.equal(tell ? 200 : 503)
      const again = await send('POST', '/sub-user/create', { container_name: 'own' })
      expect(again.status, again.text).to.equal(200)
      if (tell) expect(again.text).to.equal(first.text)
      expect(await count()).to.equal(1)
      expect(await opens(again.body.data as MadeSubUser)).to.equal(true)
      expect((await gateway.access.subUsers.findByCode(again.body.data.access_code as string))?.username).to.equal(
        again.body.data.username,
      )
    })

  for (const tell of [true, false])
    it(`rotates the password only once if it is repeated because its first answer ${tell ? 'was not stored' : 'did not arrive'}`, async () => {
      const made = await calls.make({ container_name: 'own' })
      const caller = await calls.loggedIn(made)
      dieAfter('rotate', tell)
      const path = `/sub-users/${made.id}/rotate-password`
      const first = await send('POST', path, { rotate_code: true })
      expect(first.status, first.text).to.equal(tell ? 200 : 503)
      const again = await send('POST', path, { rotate_code: true })
      expect(again.status, again.text).to.equal(200)
      if (tell) expect(again.text).to.equal(first.text)
      expect(await opens({ ...made, ...again.body.data } as MadeSubUser)).to.equal(true)
      expect(await opens(made)).to.equal(false)
      expect(await gateway.access.subUsers.findByCode(made.access_code)).to.equal(undefined)
      expect((await caller('GET', '/containers')).status).to.equal(401)
    })

  it('gets the answer 409 if it repeats a password rotation after a later rotation', async () => {
    const made = await calls.make({ container_name: 'own' })
    const path = `/sub-users/${made.id}/rotate-password`
    dieAfter('rotate', false)
    await send('POST', path)
    await send('POST', path, {}, 'another')
    const again = await send('POST', path)
    expect([again.status, again.body.code]).to.deep.equal([409, 'invalid_state'])
  })

  it('keeps its effect if the store fails just after the confirmation of the change or the removal', async () => {
    const made = await calls.make({ container_name: 'own' })
    dieAfter('update', true)
    expect((await send('PATCH', `/sub-users/${made.id}`, { disabled: true })).status).to.equal(200)
    await back()
    expect((await calls.find(made.id)).disabled).to.equal(true)
    dieAfter('remove', true)
    expect((await send('DELETE', `/sub-users/${made.id}`)).status).to.equal(200)
    await back()
    expect(await count()).to.equal(0)
    expect((await calls.make({ container_name: 'own', username: made.username })).password).not.to.equal('')
  })

  it('fails until the store is back if it comes from a sub-user', async () => {
    const caller = await calls.loggedIn(await calls.make({ container_name: 'own' }))
    await killUnder(gateway.store, gateway.redis)
    expect((await caller('GET', '/containers')).status).to.equal(503)
    await back()
    expect((await caller('GET', '/containers')).status).to.equal(200)
  })
})
