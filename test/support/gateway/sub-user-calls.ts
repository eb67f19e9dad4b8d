import { expect } from 'chai'
import type { Role } from '../../../gateway/access/roles.js'
import type { Account } from '../../../gateway/accounts/account-record.js'
import { administratorOf } from './administrator.js'
import type { Body } from '../body.js'
import type { Reply, RequestOptions, TestGateway } from './test-gateway.js'

export interface MadeSubUser {
  readonly id: string
  readonly username: string
  readonly password: string
  readonly access_code: string
  readonly container_names: readonly string[]
}

type Method = Parameters<TestGateway['request']>[0]

export type Caller = (method: Method, path: string, options?: RequestOptions) => Promise<Reply>

export interface SessionHeaders {
  readonly [name: string]: string
  readonly cookie: string
}

/** Calls of the API for sub-users. By default they use the administrator's key. */
export class SubUserCalls {
  constructor(private readonly gateway: TestGateway) {}

  async make(fields: object, options: RequestOptions = {}): Promise<MadeSubUser> {
    const reply = await this.gateway.request('POST', '/sub-user/create', { ...options, body: fields })
    expect(reply.status, reply.text).to.equal(200)
    return reply.body.data as MadeSubUser
  }

  async change(id: string, fields: object): Promise<Body> {
    const { status, text, body } = await this.gateway.request('PATCH', `/sub-users/${id}`, { body: fields })
    expect(status, text).to.equal(200)
    return body.data
  }

  /** Removes all sub-users, administrators and containers before the next test of a gateway. */
  async clear(): Promise<void> {
    const { subUsers, accounts } = this.gateway.access
    const caller = administratorOf(1)
    for (const { id } of await subUsers.list(caller)) await subUsers.remove(caller, id)
    for (const { id } of await accounts.accounts.list('admin')) await accounts.accounts.remove('admin', id)
    await this.gateway.fleet.removeGuests()
  }

  async find(id: string): Promise<Body> {
    const { body } = await this.gateway.request('GET', '/sub-users')
    return (body.data as { id: string }[]).find((row) => row.id === id)
  }

  /** Starts a session of an account as after a login. Its requests have the headers of requests from the panel. */
  async session(account: Account): Promise<Caller> {
    return this.as(await this.headers(account))
  }

  /** Returns a function that sends requests with these headers. */
  as(own: SessionHeaders): Caller {
    return (method, path, options = {}) =>
      this.gateway.request(method, path, { ...options, key: '', headers: { ...own, ...options.headers } })
  }

  /** Starts a session and returns the headers for its requests. */
  async headers(account: Account): Promise<SessionHeaders> {
    const { sessions, csrf } = this.gateway.access.accounts
    const device = { address: '127.0.0.1', userAgent: 'test' }
    const { token, digest } = await sessions.begin(account, device, true)
    return { cookie: `berth=${token}`, origin: this.gateway.url, 'x-berth-csrf': csrf.of(digest) }
  }

  async loggedIn(made: Pick<MadeSubUser, 'id'>): Promise<Caller> {
    return this.session(await this.account(made))
  }

  async account({ id }: Pick<MadeSubUser, 'id'>): Promise<Account> {
    return (await this.gateway.access.accounts.accounts.find(Number(id)))!
  }

  /** Creates an administrator and starts a session. */
  async admin(username = 'root', role?: Role): Promise<Caller> {
    return this.session(await this.makeAdmin(username, '', role))
  }

  makeAdmin(username: string, passwordHash = '', role?: Role): Promise<Account> {
    return this.gateway.access.accounts.accounts.create('admin', (id) => ({
      ...({ kind: 'admin', id, username, passwordHash, disabled: false } as const),
      generation: 1,
      createdAtMs: Date.now(),
      ...(role && { role }),
    }))
  }
}
