import { randomBytes, randomInt } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'chai'
import { joinGateway } from '../../../agent/enrollment/join.js'
import { RedisProcess } from '../../../gateway/store/redis-process.js'
import { Browser } from './browser.js'
import { endLeftGateway, GatewayProcess } from './gateway-process.js'
import { KilledAudit } from './killed-audit.js'
import { LabAgent } from '../memory/lab-agent.js'
import { pageRequest } from './page-requests.js'
import { silentLog } from './redis.js'
import { scratchDirectory } from '../scratch.js'
import type { Reply, RequestOptions } from './test-gateway.js'
import { waitFor } from '../wait.js'

export const kills = Number(process.env['BERTH_TEST_KILLS'] ?? 6)
export const makePassword = (): string => `pass word ${randomBytes(6).toString('hex')}`

/** A loop of requests that continues while the gateway and Redis are killed. Each `yield` ends a round. */
export type Lane = () => AsyncGenerator<void>

/** The answer to a request; undefined if the outcome is unknown. */
export type Answer = Reply | undefined

/** A setting that a loop of requests changes. Each change replaces the whole value. */
export interface SettingLane {
  /** Name of the change in the audit log. */
  readonly action: string
  readonly path: string
  /** Method of the request that changes the setting. Default: PUT. */
  readonly method?: string
  readonly make: (n: number) => { readonly body: object; readonly text: string }
  readonly read: (data: Record<string, unknown>) => string
}

/** A real gateway, its Redis and an agent. The gateway and Redis are killed while several loops send requests. */
export class KilledGateway {
  readonly outcomes = { acknowledged: 0, cut: 0 }
  readonly audit = new KilledAudit()
  /** Methods and paths (below /api/v1) of all requests that were sent. */
  readonly asked = new Set<string>()
  #sources = 0
  #stopped = false

  private constructor(
    readonly gateway: GatewayProcess,
    private readonly redis: RedisProcess,
    readonly agent: LabAgent,
    private readonly wipe: () => void,
  ) {}

  /** @param name name of the directory; if an earlier run has left it, it is removed */
  static async start(name: string): Promise<KilledGateway> {
    const directory = join('/var/tmp', name)
    await endLeftGateway(join(directory, 'gateway'))
    const { wipe } = scratchDirectory(name)
    const gateway = await GatewayProcess.create(join(directory, 'gateway'), '127.0.0.1', {
      http: { trusted_proxies: ['127.0.0.1'] },
      tls_listen: '',
      http_listen: '',
    })
    const [stateDir, runDir] = [join(gateway.directory, 'state'), join(gateway.directory, 'run')]
    const redis = new RedisProcess({ program: '/usr/bin/redis-server', stateDir, runDir, log: silentLog })
    gateway.start()
    await gateway.ready()
    const host = { name: 'host-a', address: '127.0.0.1:1' }
    const { data } = (await gateway.request('POST', '/hosts', { body: host })).body as {
      data: { join_token: string; host: { id: string } }
    }
    const identityDir = join(directory, 'agent')
    await joinGateway(data.join_token, identityDir)
    const agent = await LabAgent.start({ identityDir })
    await gateway.request('PATCH', `/hosts/${data.host.id}`, { body: { address: agent.address } })
    return new KilledGateway(gateway, redis, agent, wipe)
  }

  async close(): Promise<void> {
    this.#stopped = true
    await this.gateway.close()
    await this.agent.destroy()
    this.wipe()
  }

  /** Call this in each round of a loop. It throws if the test has ended, and so ends the loop. */
  checkGoesOn(): void {
    if (this.#stopped) throw new Error('the test has ended')
  }

  /** Sends a request once. If the answer is neither a success nor a refusal, the outcome is unknown. */
  async attempt(work: () => Promise<Reply>): Promise<Answer> {
    const reply = await work().catch(() => undefined)
    const isAnswer = reply !== undefined && reply.status < 500 && reply.body?.code !== 'rate_limited'
    if (isAnswer && reply.status < 300) this.outcomes.acknowledged++
    if (isAnswer) return reply
    this.outcomes.cut++
    await delay(randomInt(20, 100)) // waits, so that the gateway or Redis can start again
    return undefined
  }

  /** Repeats a request until it is answered. The request must not change anything. */
  async insist(work: () => Promise<Reply>): Promise<Reply> {
    for (;;) {
      const reply = await this.attempt(work)
      if (reply) return reply
      this.checkGoesOn()
    }
  }

  asAdmin(method: string, path: string, options: RequestOptions = {}): Promise<Reply> {
    return this.#request(method, path, { key: this.gateway.adminKey, ...options })
  }

  /** Makes a browser with its own IP address, so that failed logins of other browsers do not count against it. */
  someone(): Browser {
    const source = ++this.#sources
    const address = `10.${(source >> 16) & 255}.${(source >> 8) & 255}.${source & 255}`
    const request = (method: string, path: string, options: RequestOptions = {}) => this.#request(method, path, options)
    return new Browser({ url: this.gateway.url, request }, { 'x-forwarded-for': address })
  }

  #request(method: string, path: string, options: RequestOptions): Promise<Reply> {
    this.asked.add(`${method} ${path.replace(/\?.*$/, '')}`)
    return pageRequest(this.gateway.url, [method, path], options)
  }

  /** Logs in. @param passwords the possible passwords; exactly one of them must be correct */
  async enter(username: string, passwords: readonly string[]) {
    const found: { browser: Browser; password: string; wantsCode: boolean }[] = []
    for (const password of new Set(passwords)) {
      const browser = this.someone()
      const body = { username, password }
      const { status } = await this.insist(() => browser.request('POST', '/login', { body }))
      if (status < 300) found.push({ browser, password, wantsCode: status === 202 })
    }
    expect(found, `${username}: one of ${passwords.length} passwords`).to.have.length(1)
    const entered = found[0]!
    if (!entered.wantsCode) await this.readCsrf(entered.browser)
    return entered
  }

  /** Reads the CSRF token as a loaded page does. Repeats this until it succeeds. */
  async readCsrf(browser: Browser): Promise<void> {
    await this.insist(async () => (await browser.readCsrf(), this.asAdmin('GET', '/language')))
  }

  async makeAdmin(username: string): Promise<string> {
    const password = makePassword()
    for (;;) {
      const body = { username, password }
      const reply = await this.attempt(() => this.asAdmin('POST', '/admins', { body }))
      if (reply?.status === 201 || reply?.body.code === 'name_conflict') return password
      this.checkGoesOn()
    }
  }

  /** Makes a loop that reads a setting, checks that the value is one of the possible ones, and changes the setting. */
  setting({ action, path, method = 'PUT', make, read }: SettingLane): Lane {
    const ask = async function* (lab: KilledGateway): AsyncGenerator<void> {
      let possible: string[] | undefined
      for (let n = 0; ; n++) {
        const now = read(await lab.#data(path))
        if (possible) expect(possible, action).to.include(now)
        lab.audit.observed(action, now)
        const wanted = make(n)
        const reply = await lab.attempt(() => lab.asAdmin(method, path, { body: wanted.body }))
        if (reply) expect(reply.status, reply.text).to.equal(200)
        if (reply) lab.audit.acknowledged(action, wanted.text)
        possible = reply ? [wanted.text] : [now, wanted.text]
        yield
      }
    }
    return () => ask(this)
  }

  /** Reads data. Repeats the request, because a gateway that has just started may not know its agents' state yet. */
  async #data(path: string): Promise<Record<string, unknown>> {
    for (;;) {
      const { status, body } = await this.insist(() => this.asAdmin('GET', path))
      if (status === 200) return body.data as Record<string, unknown>
      this.checkGoesOn()
      await delay(50)
    }
  }

  async #kill(round: number): Promise<void> {
    if (round % 3 === 2) return this.#killRedis()
    await this.gateway.kill()
    this.gateway.start()
    await this.#ready()
  }

  /**
   * Kills Redis, and waits until the audit log contains the outcome of each acknowledged change. Until then, only the
   * gateway's memory has these outcomes (docs/design/audit-and-retention.md). A kill of the gateway would lose them.
   */
  async #killRedis(): Promise<void> {
    const pid = await waitFor(() => this.redis.findPid())
    process.kill(pid, 'SIGKILL')
    await waitFor(async () => (await this.redis.findPid()) !== pid, { what: 'the end of Redis' })
    await this.#ready()
    const isAudited = this.audit.acknowledgedByNow()
    await waitFor(async () => isAudited((await this.asAdmin('GET', '/audit-logs/export')).text), {
      what: 'the outcomes of acknowledged changes to be written',
    })
  }

  /** Waits until the gateway is ready. On a busy machine, this may need a second attempt. */
  async #ready(): Promise<void> {
    await this.gateway.ready().catch(() => this.gateway.ready())
  }

  /**
   * Runs all loops together while gateway and Redis are killed. At the end, each loop completes its round and one more
   * without kills. So each loop has sent all its requests, even if the kills have interrupted all earlier rounds.
   */
  async run(lanes: readonly Lane[]): Promise<void> {
    let isOver = false
    const counts = lanes.map(() => 0)
    const running = Promise.all(
      lanes.map(async (lane, index) => {
        let isLastRound = false
        for await (const _ of lane()) {
          counts[index]!++
          if (isLastRound) return
          isLastRound = isOver
        }
      }),
    )
    running.catch(() => (isOver = true))
    for (let round = 0; round < kills && !isOver; round++) {
      await delay(randomInt(300, 1500))
      await this.#kill(round)
    }
    await this.gateway.ready()
    isOver = true
    await running
    console.log(`      ${JSON.stringify({ ...this.outcomes, rounds: counts })}`)
    for (const [index, count] of counts.entries()) expect(count, `lane ${index}`).to.be.greaterThan(0)
    expect(this.outcomes.cut).to.be.greaterThan(0)
    this.audit.check((await this.asAdmin('GET', '/audit-logs/export')).text)
  }
}
