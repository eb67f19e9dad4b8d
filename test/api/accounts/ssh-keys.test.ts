import { expect } from 'chai'
import { maxSshKeys } from '../../../gateway/accounts/ssh-keys.js'
import { SubUserCalls, type Caller } from '../../support/gateway/sub-user-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

const keyOf = (seed: number): string => {
  const field = (bytes: Buffer): Buffer => Buffer.concat([Buffer.from([0, 0, 0, bytes.length]), bytes])
  const blob = Buffer.concat([field(Buffer.from('ssh-ed25519')), field(Buffer.alloc(32, seed))])
  return `ssh-ed25519 ${blob.toString('base64')} me@laptop`
}

describe('the stored SSH keys of an account', function () {
  let gateway: TestGateway
  let calls: SubUserCalls
  let customer: Caller
  let customerId: string

  before(async () => {
    gateway = await startTestGateway()
    calls = new SubUserCalls(gateway)
  })
  after(() => gateway.close())
  beforeEach(async () => {
    await gateway.fleet.addGuest({ name: 'one' })
    const made = await calls.make({ container_name: 'one' })
    customerId = made.id
    customer = await calls.loggedIn(made)
  })
  afterEach(() => calls.clear())

  const add = (caller: Caller, name: string, seed = 1) =>
    caller('POST', '/account/ssh-keys', { body: { name, public_key: keyOf(seed) } })
  const namesOf = async (caller: Caller): Promise<string[]> => {
    const { body } = await caller('GET', '/account/ssh-keys')
    return (body.data as { name: string }[]).map(({ name }) => name)
  }

  it('are created, listed with their fingerprint and deleted, each with an audit entry', async () => {
    const { status, body } = await add(customer, ' my laptop ')
    expect(status).to.equal(201)
    expect(body.data).to.deep.equal({
      id: 1,
      name: 'my laptop',
      public_key: keyOf(1),
      fingerprint: 'SHA256:RXm/ruZ0eTzRXKwi1AQEDynB0VgHQ2ac9KPSFdf/YnA',
      created_at: body.data.created_at,
    })
    expect((await customer('GET', '/account/ssh-keys')).body.data).to.deep.equal([body.data])
    expect((await add(customer, 'my laptop')).body.data, 'repeated').to.deep.equal(body.data)
    expect((await add(customer, 'phone', 2)).body.data.id).to.equal(2)
    expect((await customer('DELETE', '/account/ssh-keys/2')).status).to.equal(200)
    const gone = await customer('DELETE', '/account/ssh-keys/2')
    expect([gone.status, gone.body.code]).to.deep.equal([404, 'not_found'])
    expect((await add(customer, 'phone', 2)).body.data.id, 'ids are not used again').to.equal(3)
    const log = await customer('GET', '/account/audit-logs')
    const rows = (log.body.data as { action: string; detail: string; success: boolean }[]).filter((row) => row.success)
    expect(rows.map(({ action }) => action)).to.include.members(['ssh_key.create', 'ssh_key.delete'])
    expect(rows.map(({ detail }) => detail)).to.include(`id 1, my laptop, ${body.data.fingerprint}`)
  })

  it('belong to one account, and are deleted with this account', async () => {
    await add(customer, 'laptop')
    const admin = await calls.admin()
    expect(await namesOf(admin)).to.deep.equal([])
    expect((await admin('DELETE', '/account/ssh-keys/1')).status).to.equal(404)
    await add(admin, 'of the administrator')
    expect(await namesOf(customer)).to.deep.equal(['laptop'])
    await gateway.request('DELETE', `/sub-users/${customerId}`)
    expect(await namesOf(admin)).to.deep.equal(['of the administrator'])
    expect(await gateway.access.accounts.sshKeys.list(Number(customerId))).to.deep.equal([])
  })

  it('are refused if the key is invalid, the name is in use, or the account has too many', async () => {
    await add(customer, 'laptop')
    for (const [body, refusal] of [
      [{ name: 'new' }, [400, 'missing_field', 'public_key']],
      [{ public_key: keyOf(2) }, [400, 'missing_field', 'name']],
      [{ name: 'a\nb', public_key: keyOf(2) }, [400, 'invalid_field', 'name']],
      [{ name: 'new', public_key: 'ssh-ed25519 AAAA' }, [400, 'invalid_field', 'public_key']],
      [{ name: 'Laptop', public_key: keyOf(1) }, [409, 'name_conflict', undefined]],
      [{ name: 'laptop', public_key: keyOf(2) }, [409, 'name_conflict', undefined]],
    ] as const) {
      const { status, body: answer } = await customer('POST', '/account/ssh-keys', { body })
      expect([status, answer.code, answer.details?.field], JSON.stringify(body)).to.deep.equal(refusal)
    }
    const replies = await Promise.all(Array.from({ length: maxSshKeys + 2 }, (_, n) => add(customer, `key ${n}`, n)))
    const refused = replies.filter(({ status }) => status !== 201)
    expect(refused.map(({ status, body }) => [status, body.code] as unknown)).to.deep.equal(
      Array.from({ length: 3 }, () => [409, 'ssh_key_limit_reached']),
    )
    expect(await namesOf(customer)).to.have.length(maxSshKeys)
  })
})
