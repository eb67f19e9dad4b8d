import { expect } from 'chai'
import type { Account } from '../../../gateway/accounts/account-record.js'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { ConsoleClient } from '../../support/gateway/console-client.js'
import { ConsoleLab, ownProtocol } from '../../support/gateway/console-lab.js'
import {
  SubUserCalls,
  type Caller,
  type MadeSubUser,
  type SessionHeaders,
} from '../../support/gateway/sub-user-calls.js'
import { waitFor } from '../../support/wait.js'
import { expectInTime } from '../../support/promised-time.js'

describe('the consoles of logged-in users', function () {
  let lab: ConsoleLab
  let calls: SubUserCalls
  let guest: Guest
  let count = 0

  before(async () => {
    lab = await ConsoleLab.start()
    calls = new SubUserCalls(lab.gateway)
  })
  after(() => lab.close())
  beforeEach(async () => {
    guest = await lab.addGuest()
  })
  afterEach(() => lab.endAll())

  const makeAdmin = async (password = ''): Promise<Account> => {
    const { passwords } = lab.gateway.access.accounts
    return calls.makeAdmin(
      `admin-${++count}`,
      password && (await passwords.hash(password, { account: 'test', source: '' })),
    )
  }
  const makeSubUser = (): Promise<MadeSubUser> => calls.make({ container_name: guest.name, username: `sub-${++count}` })
  const headersOf = async (made: MadeSubUser): Promise<SessionHeaders> => calls.headers(await calls.account(made))
  const use = (ticket: string, headers: Record<string, string>): ConsoleClient =>
    lab.connect('/api/v1/ssh', {
      headers,
      query: { container: guest.name },
      protocols: [ownProtocol, `berth-ticket.${ticket}`],
    })
  const done = async (work: ReturnType<Caller>): Promise<void> => {
    const { status, text } = await work
    expect(status, text).to.equal(200)
  }

  describe('with a ticket', () => {
    it('open with the cookie of the session that requested the ticket', async () => {
      const as = await calls.headers(await makeAdmin())
      await lab.opened(guest, { as })
    })

    it('are refused without the cookie of this session, with another cookie, or with an API key', async () => {
      const account = await makeAdmin()
      const [as, other] = [await calls.headers(account), await calls.headers(account)]
      for (const headers of [
        {},
        { cookie: other.cookie },
        { cookie: 'berth=' },
        { cookie: `__Host-${as.cookie}` },
        { cookie: `${as.cookie}; ${other.cookie}` },
        { 'x-api-key': lab.gateway.adminKey },
      ]) {
        const ended = await use(await lab.ticket(guest.name, { as }), headers).ended()
        expect(ended, JSON.stringify(headers)).to.deep.equal({ code: 4401, reason: 'ticket' })
      }
    })

    it('are refused after the session that requested the ticket has ended', async () => {
      const as = await calls.headers(await makeAdmin())
      const ticket = await lab.ticket(guest.name, { as })
      await done(calls.as(as)('POST', '/logout'))
      expect((await use(ticket, { cookie: as.cookie }).ended()).code).to.equal(4401)
    })

    it('are refused if the sub-user’s password was rotated, even with the cookie of a later session', async () => {
      const made = await makeSubUser()
      const as = await headersOf(made)
      const tickets = [await lab.ticket(guest.name, { as }), await lab.ticket(guest.name, { as })]
      await done(lab.gateway.request('POST', `/sub-users/${made.id}/rotate-password`))
      for (const [index, { cookie }] of [as, await headersOf(made)].entries()) {
        const ended = await use(tickets[index]!, { cookie }).ended()
        expect(ended).to.deep.equal({ code: 4401, reason: 'ticket' })
      }
      await lab.opened(guest, { as: await headersOf(made) })
    })

    it('are refused to a page without the CSRF token', async () => {
      const { 'x-berth-csrf': _, ...as } = await calls.headers(await makeAdmin())
      const body = { container_name: guest.name }
      const { status, body: answer } = await calls.as(as)('POST', '/ssh-ticket', { body })
      expect([status, answer.code]).to.deep.equal([403, 'csrf_refused'])
    })
  })

  it('of a sub-user open only for its own containers, and other containers look like missing containers', async () => {
    const other = await lab.addGuest()
    const as = await headersOf(await makeSubUser())
    const ask = (container_name: string) =>
      calls.as(as)('POST', '/ssh-ticket', {
        body: { container_name },
        headers: { 'x-request-id': 'the-same-for-all' },
      })
    await lab.opened(guest, { as })
    const none = await ask('nothing-of-that-name')
    expect([none.status, none.body.code]).to.deep.equal([404, 'not_found'])
    for (const name of [other.name, other.uuid, String(other.id)]) expect((await ask(name)).text).to.equal(none.text)
  })

  describe('end immediately', () => {
    const thrownOut = async (as: SessionHeaders, act: () => unknown): Promise<void> => {
      const { client, terminal } = await lab.opened(guest, { as })
      client.type('before')
      await waitFor(() => terminal.input === 'before', { what: 'input' })
      const started = performance.now()
      await act()
      client.onBytes = () => client.type('after')
      expect(await client.ended()).to.deep.equal({ code: 4403, reason: 'revoked' })
      expectInTime(started, 2000, 'the end')
      await waitFor(() => terminal.closed, { what: 'the terminal is closed' })
      expect(terminal.input).to.equal('before')
    }

    describe('for an administrator', () => {
      const password = 'correct horse battery'
      let account: Account
      let as: SessionHeaders
      beforeEach(async () => {
        account = await makeAdmin(password)
        as = await calls.headers(account)
      })

      it('at logout', () => thrownOut(as, () => done(calls.as(as)('POST', '/logout'))))

      it('when another session of the administrator ends this session', async () => {
        const other = calls.as(await calls.headers(account))
        await thrownOut(as, () => done(other('DELETE', '/account/sessions')))
      })

      it('when the password changes', () =>
        thrownOut(as, () => {
          const body = { current_password: password, password: 'staple paper clip 7' }
          return done(calls.as(as)('POST', '/account/password', { body }))
        }))

      it('when the account is disabled', () =>
        thrownOut(as, async () => {
          await makeAdmin() // a second administrator, because the last one cannot be disabled
          await lab.gateway.access.accounts.admins.update(account.id, { disabled: true })
        }))

      it('when the account is required to set up a second factor', async () => {
        const { requireTwoFactor } = lab.gateway.access.accounts.settings
        try {
          await thrownOut(as, () => requireTwoFactor.update(() => 'admins'))
          const refused = await calls.as(as)('POST', '/ssh-ticket', {
            body: { container_name: guest.name },
          })
          expect(refused.body.code).to.equal('two_factor_required')
        } finally {
          await requireTwoFactor.update(() => 'none')
        }
      })
    })

    describe('for a sub-user', () => {
      let made: MadeSubUser
      let as: SessionHeaders
      beforeEach(async () => {
        made = await makeSubUser()
        as = await headersOf(made)
      })
      const ends = (act: () => unknown): Promise<void> => thrownOut(as, act)
      const change = (fields: object) => ends(() => calls.change(made.id, fields))
      const send: Caller = (...request) => lab.gateway.request(...request)

      it('when it is disabled', () => change({ disabled: true }))
      it('when its password is rotated', () =>
        ends(() => done(send('POST', `/sub-users/${made.id}/rotate-password`, { body: {} }))))
      it('when it loses the container', () => change({ container_names: [] }))
      it('when it loses the permission to open consoles', () =>
        change({ permissions: ['container:read', 'terminal:vnc'] }))
      it('when it expires', () => change({ expires_at: new Date(Date.now() + 3000).toISOString() }))
      it('when it is removed', () => ends(() => done(send('DELETE', `/sub-users/${made.id}`))))
    })
  })
})
