import { expect } from 'chai'
import type { Reply, RequestOptions, TestGateway } from './test-gateway.js'

type Method = Parameters<TestGateway['request']>[0]

/** A user with a browser. It stores cookies, and sends the headers that a page of the panel would send. */
export class Browser {
  readonly cookies = new Map<string, string>()
  #csrf: string | undefined

  /** @param headers added to every request, such as those of a proxy in front of the gateway */
  constructor(
    private readonly gateway: Pick<TestGateway, 'request' | 'url'>,
    private readonly headers: Record<string, string> = {},
  ) {}

  /** The session cookie, for tests that steal it. */
  get token(): string {
    return this.cookies.get('berth') ?? ''
  }

  async request(method: Method, path: string, { body, headers = {} }: RequestOptions = {}): Promise<Reply> {
    const reply = await this.gateway.request(method, path, {
      key: '',
      headers: { ...this.headers, ...this.#pageHeaders(method), ...headers },
      ...(body === undefined ? {} : { body }),
    })
    this.#keep(reply)
    return reply
  }

  /** Sends a request. @returns status and error code */
  async answerTo(...request: Parameters<Browser['request']>): Promise<[number, string | undefined]> {
    const { status, body } = await this.request(...request)
    return [status, body?.code as string | undefined]
  }

  async login(username: string, password: string, more: object = {}): Promise<Reply> {
    const reply = await this.request('POST', '/login', { body: { username, password, ...more } })
    if (reply.status === 200) await this.readCsrf()
    return reply
  }

  /** Reads the CSRF token, as a page does after it was loaded. */
  async readCsrf(): Promise<string> {
    const { status, body, text } = await this.request('GET', '/session')
    expect(status, text).to.equal(200)
    this.#csrf = String(body.data.csrf)
    return this.#csrf
  }

  #pageHeaders(method: Method): Record<string, string> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    return {
      ...(cookie === '' ? {} : { cookie }),
      ...(method === 'GET' ? {} : { origin: this.gateway.url, 'sec-fetch-site': 'same-origin' }),
      ...(method === 'GET' || this.#csrf === undefined ? {} : { 'x-berth-csrf': this.#csrf }),
    }
  }

  #keep({ headers }: Reply): void {
    for (const line of [headers['set-cookie'] ?? []].flat()) {
      const [, name = '', value = '', rest = ''] = /^([^=]+)=([^;]*)(.*)$/.exec(line) ?? []
      if (value === '' || /Max-Age=0/.test(rest)) this.cookies.delete(name)
      else this.cookies.set(name, value)
    }
  }
}

export const password = 'correct horse battery'

/** Creates an administrator with the first API key. @returns the administrator's id */
export async function makeAdmin(
  gateway: Pick<TestGateway, 'request'>,
  username: string,
  given = password,
  more: object = {},
): Promise<number> {
  const { status, body, text } = await gateway.request('POST', '/admins', {
    body: { username, password: given, ...more },
  })
  expect(status, text).to.equal(201)
  return body.data.id as number
}

/** Creates the browser of a logged-in administrator. */
export async function adminBrowser(gateway: TestGateway, username: string): Promise<Browser> {
  await makeAdmin(gateway, username)
  const browser = new Browser(gateway)
  const { status, text } = await browser.login(username, password)
  expect(status, text).to.equal(200)
  return browser
}
