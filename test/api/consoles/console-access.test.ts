import { createHash, randomBytes } from 'node:crypto'
import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { ConsoleLab, ownProtocol } from '../../support/gateway/console-lab.js'
import type { ConsoleClient } from '../../support/gateway/console-client.js'
import { waitFor } from '../../support/wait.js'
import { expectInTime } from '../../support/promised-time.js'

const [inside, outside] = ['192.0.2.5', '203.0.113.9']

describe('access to consoles', () => {
  let lab: ConsoleLab
  let guest: Guest
  before(async () => {
    lab = await ConsoleLab.start({ trustedProxies: ['127.0.0.1'] })
  })
  after(() => lab.close())
  beforeEach(async () => {
    guest = await lab.addGuest()
  })
  afterEach(async () => {
    lab.aheadMs = 0
    await lab.endAll()
  })

  const use = (ticket: string, container = guest.name, kind = 'ssh'): ConsoleClient =>
    lab.connect(`/api/v1/${kind}`, {
      protocols: [ownProtocol, `berth-ticket.${ticket}`],
      query: { container },
    })
  const put = async (path: string, body: unknown): Promise<void> => {
    const { status, text } = await lab.gateway.request('PUT', path, { body })
    expect(status, text).to.equal(200)
  }

  describe('with a ticket', () => {
    it('is granted only once, even if two connections use the ticket at the same moment', async () => {
      const ticket = await lab.ticket(guest.name)
      const clients = [use(ticket), use(ticket)]
      await waitFor(() => clients.some(({ closed }) => closed), { what: 'one is refused' })
      expect(clients.flatMap(({ closed }) => closed ?? [])).to.deep.equal([{ code: 4401, reason: 'ticket' }])
      await clients.find(({ closed }) => !closed)!.ready()
      expect(await use(ticket).ended()).to.deep.equal({ code: 4401, reason: 'ticket' })
    })

    it('is refused if the ticket is older than 60 seconds', async () => {
      const [early, late] = [await lab.ticket(guest.name), await lab.ticket(guest.name)]
      lab.aheadMs = 59_000
      await use(early).ready()
      lab.aheadMs = 61_000
      expect((await use(late).ended()).code).to.equal(4401)
    })

    it('is granted only for the container and the kind of console of the ticket, and any other attempt uses up the ticket', async () => {
      const other = await lab.addGuest()
      const ticket = await lab.ticket(guest.name)
      expect((await use(ticket, other.name).ended()).code).to.equal(4401)
      expect((await use(ticket).ended()).code).to.equal(4401)
      const machine = await lab.addGuest({ virtualization: 'kvm' })
      const forScreens = await lab.ticket(machine.name, { kind: 'vnc' })
      expect((await use(forScreens, machine.name).ended()).code).to.equal(4401)
    })

    it('needs a random ticket, of which the store contains only the hash', async () => {
      const ticket = await lab.ticket(guest.name)
      expect(ticket).to.match(/^[\w-]{43}$/)
      expect((await use(randomBytes(32).toString('base64url')).ended()).code).to.equal(4401)
      const key = `btest:ticket:${createHash('sha256').update(ticket).digest('hex')}`
      expect(await lab.gateway.store.client.get(key))
        .to.contain(guest.uuid)
        .and.not.to.contain(ticket)
      expect(await lab.gateway.store.client.ttl(key)).to.be.within(30, 60)
    })

    it('requires the scope of the kind of console, and access to the container', async () => {
      const other = await lab.addGuest()
      const bound = await lab.gateway.makeKey({ scopes: ['terminal:ssh'], container_uuids: [guest.uuid] })
      const ask = async (kind: string, container_name: string): Promise<unknown[]> => {
        const { status, body } = await lab.gateway.request('POST', `/${kind}-ticket`, {
          key: bound,
          body: { container_name },
        })
        return [status, body.code] as unknown[]
      }
      expect(await ask('ssh', guest.uuid)).to.deep.equal([200, undefined])
      expect(await ask('ssh', other.name)).to.deep.equal([404, 'not_found'])
      expect(await ask('ssh', 'nothing')).to.deep.equal([404, 'not_found'])
      expect(await ask('vnc', guest.name)).to.deep.equal([403, 'insufficient_scope'])
      expect((await lab.gateway.request('POST', '/ssh-ticket', { body: {} })).status).to.equal(400)
    })

    it('is refused with 429 after ten tickets for a container within a minute', async () => {
      for (let n = 0; n < 10; n++) await lab.ticket(guest.name)
      const { status, headers } = await lab.gateway.request('POST', '/ssh-ticket', {
        body: { container_name: guest.name },
      })
      expect(status).to.equal(429)
      expect(Number(headers['retry-after'])).to.be.within(1, 60)
    })

    it('is refused if the key that requested the ticket has been disabled', async () => {
      const key = await lab.gateway.makeKey({ scopes: ['terminal:ssh'], name: 'off' })
      const ticket = await lab.ticket(guest.name, { key })
      await disable('off')
      expect((await use(ticket).ended()).code).to.equal(4401)
    })
  })

  describe('from a web page', () => {
    const refused = { status: 403, code: 'origin_not_allowed' }
    const from = async (origin: string | null, headers: Record<string, string> = {}): Promise<ConsoleClient> =>
      lab.open(guest.name, { origin, headers })

    it('is refused if the origin is not the gateway’s, and the ticket stays valid', async () => {
      const own = lab.gateway.url
      const ticket = await lab.ticket(guest.name)
      for (const origin of [
        'http://evil.example',
        'null',
        own.replace('http', 'https'),
        own.replace(/\d+$/, '1'),
        own.replace('://', '://good@'),
        `${own}@evil.example`,
        `${own}/`,
        null,
      ]) {
        const client = lab.connect('/api/v1/ssh', {
          origin,
          query: { container: guest.name },
          protocols: [ownProtocol, `berth-ticket.${ticket}`],
        })
        expect(await client.refusal(), String(origin)).to.deep.equal(refused)
      }
      await use(ticket).ready()
    })

    it('is granted as soon as the origin of the page is added to the allowed origins', async () => {
      expect(await (await from('https://panel.example')).refusal()).to.deep.equal(refused)
      await put('/webssh-origins', { origins: ['https://panel.example'] })
      await (await from('https://panel.example')).ready()
      await put('/webssh-origins', { origins: [] })
      expect(await (await from('https://panel.example')).refusal()).to.deep.equal(refused)
    })

    it('is granted with an https origin if a trusted proxy reports TLS', async () => {
      const page = `https://${new URL(lab.gateway.url).host}`
      await (await from(page, { 'x-forwarded-proto': 'https', 'x-forwarded-for': inside })).ready()
    })

    it('is refused, and open consoles end, if the access policy excludes the address of the client', async () => {
      const client = await from(lab.gateway.url, { 'x-forwarded-for': outside })
      await client.ready()
      try {
        await put('/access-policy', { enabled: true, allowed_sources: [inside] })
        const started = performance.now()
        expect(await client.ended()).to.deep.equal({ code: 4403, reason: 'revoked' })
        expectInTime(started, 2000, 'the end')
        const late = await from(lab.gateway.url, { 'x-forwarded-for': outside })
        expect(await late.refusal()).to.deep.equal({ status: 403, code: 'access_policy_denied' })
      } finally {
        await put('/access-policy', { enabled: false, allowed_sources: [] })
      }
    })
  })

  describe('ends immediately', () => {
    const thrownOut = async (
      reason: { code: number; reason: string },
      act: () => unknown,
      options: { key?: string } = {},
    ): Promise<void> => {
      const { client, status, terminal } = await lab.opened(guest, options)
      client.type('before')
      await waitFor(() => terminal.input === 'before', { what: 'input' })
      const started = performance.now()
      await act()
      client.onBytes = () => client.type('after')
      expect(await client.ended()).to.deep.equal(reason)
      expectInTime(started, 2000, 'the end')
      await waitFor(() => terminal.closed, { what: 'the terminal is closed' })
      expect(terminal.input).to.equal('before')
      expect(lab.consoles.holder.size, `resume ${status.resume}`).to.equal(0)
    }
    const revoked = { code: 4403, reason: 'revoked' }

    it('when the API key is disabled', async () => {
      const key = await lab.gateway.makeKey({ scopes: ['terminal:ssh'], name: 'to-disable' })
      await thrownOut(revoked, () => disable('to-disable'), { key })
    })

    it('when the API key is deleted', async () => {
      const key = await lab.gateway.makeKey({ scopes: ['terminal:ssh'], name: 'to-delete' })
      const remove = async (): Promise<unknown> => lab.gateway.request('DELETE', `/api-keys/${await idOf('to-delete')}`)
      await thrownOut(revoked, remove, { key })
    })

    it('when the API key loses the scope for the console', async () => {
      const key = await lab.gateway.makeKey({ scopes: ['terminal:ssh'], name: 'to-narrow' })
      await thrownOut(revoked, () => change('to-narrow', { scopes: ['terminal:vnc'] }), { key })
    })

    it('when the API key loses the access to the container', async () => {
      const { uuid } = await lab.addGuest()
      const key = await lab.gateway.makeKey({ scopes: ['terminal:ssh'], name: 'to-bind' })
      await thrownOut(revoked, () => change('to-bind', { container_uuids: [uuid] }), { key })
    })

    it('when the API key expires', async () => {
      const key = await lab.gateway.makeKey({ scopes: ['terminal:ssh'], name: 'to-expire' })
      const at = new Date(Date.now() + 3000).toISOString()
      await thrownOut(revoked, () => change('to-expire', { expires_at: at }), { key })
    })

    it('when the guest is stopped', async () => {
      const stopped = { code: 4409, reason: 'not_running' }
      await thrownOut(stopped, () => {
        lab.agent.host.driver.running.delete(guest.uuid)
        lab.agent.update(guest.uuid, { status: 'stopped', wanted: 'stopped' })
      })
    })

    it('when the guest is suspended', async () => {
      const expired = { expiresAtMs: 1, policy: { expired: true, overQuota: false } }
      await thrownOut({ code: 4409, reason: 'blocked' }, () => lab.agent.update(guest.uuid, expired))
    })

    it('when the guest is deleted', async () => {
      await thrownOut({ code: 4410, reason: 'deleted' }, () => lab.agent.removeGuest(guest.uuid))
    })
  })

  async function idOf(name: string): Promise<number> {
    const { body } = await lab.gateway.request('GET', '/api-keys')
    const keys = body.data as { id: number; name: string }[]
    return keys.find((key) => key.name === name)!.id
  }

  async function change(name: string, fields: object): Promise<void> {
    const { status, text } = await lab.gateway.request('PATCH', `/api-keys/${await idOf(name)}`, {
      body: fields,
    })
    expect(status, text).to.equal(200)
  }

  const disable = (name: string): Promise<void> => change(name, { disabled: true })
})
