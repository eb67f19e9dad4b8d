import { expect } from 'chai'
import { setTimeout as delay } from 'node:timers/promises'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { Body } from '../body.js'
import { startTestGateway, type Reply, type TestGateway } from '../gateway/test-gateway.js'
import { freePort } from '../ports.js'
import { waitFor } from '../wait.js'
import type { LabAgent } from './lab-agent.js'
import type { Absence } from './plan-absences.js'

const hosts = ['host-a', 'host-b', 'host-c']
const guestCount = 4
const deadlineMs = 120_000

/**
 * A fleet of three hosts on which one host after another fails, has its guests restored elsewhere, and returns. Checks at
 * each start of a guest that no other host runs it.
 */
export class PartitionTrial {
  /** Guests that ran on two hosts at the same time, and guests whose content was wrong. */
  readonly violations: string[] = []
  restored = 0
  #guests: Guest[] = []
  #round = 0

  private constructor(
    private readonly gateway: TestGateway,
    private readonly targetId: string,
  ) {}

  static async start(): Promise<PartitionTrial> {
    const gateway = await startTestGateway({ hosts })
    for (const host of hosts) await gateway.fleet.work(host)
    const body = { name: 'disk', type: 'local', path: '/srv/backups', encryption_password: 'a-password-of-it' }
    const target = await gateway.request('POST', '/backup-targets', { body })
    const trial = new PartitionTrial(gateway, target.body.data.id as string)
    for (const host of hosts) trial.#watch(host)
    for (let n = 0; n < guestCount; n++) await trial.#addGuest(hosts[n % hosts.length]!)
    return trial
  }

  close(): Promise<void> {
    return this.gateway.close()
  }

  /** Notes each start of a guest that another host runs. */
  #watch(host: string): void {
    const { driver } = this.#agentOf(host).host
    const run = driver.run.bind(driver)
    driver.run = (uuid) => {
      for (const other of hosts)
        if (other !== host && this.#agentOf(other).host.driver.running.has(uuid))
          this.violations.push(`round ${this.#round}: ${uuid} is started on ${host} and runs on ${other}`)
      run(uuid)
    }
  }

  async #addGuest(host: string): Promise<void> {
    const guest = await this.gateway.fleet.addGuest({ status: 'running', wanted: 'running' }, host)
    this.#agentOf(host).host.driver.run(guest.uuid)
    this.#guests.push(guest)
  }

  #agentOf(host: string): LabAgent {
    return this.gateway.fleet.agentOf(host)
  }

  #hostOf({ uuid }: Pick<Guest, 'uuid'>): string {
    return this.gateway.fleet.view.findGuest(uuid)!.hostId
  }

  /** Runs one failure and return of a host, and checks that each guest then runs on exactly one host. */
  async run(absence: Absence): Promise<void> {
    this.#round++
    const occupied = hosts.filter((host) => this.#guests.some((guest) => this.#hostOf(guest) === host))
    const failed = occupied[absence.host % occupied.length]!
    const onFailed = this.#guests.filter((guest) => this.#hostOf(guest) === failed)
    for (const [n, guest] of onFailed.entries()) await this.#save(guest, (n + this.#round) % 2 === 0)
    await this.#agentOf(failed).powerOff()
    await this.#waitForState(failed, 'offline')
    const returned = this.#return(failed, absence)
    const begun = await this.#evacuate(failed)
    if (absence.targetRestarts && begun.status === 202)
      await this.#agentOf(hosts.find((host) => host !== failed)!).restart()
    await returned
    await this.#waitForState(failed, 'online')
    if (begun.status === 202) await this.#waitForEnd(failed)
    for (const guest of onFailed) await this.#expectOneCopy(guest, failed)
    // While the host of a standby does not answer, an older backup is restored.
    if (!absence.targetRestarts) for (const guest of onFailed) this.#checkContent(guest)
    await this.#tidy(failed)
  }

  /** Gives a guest a new content, and saves it in a backup or on a standby. */
  async #save(guest: Guest, onStandby: boolean): Promise<void> {
    const host = this.#hostOf(guest)
    this.#agentOf(host).host.contents.set(guest.uuid, this.#contentOf(guest))
    const path = `/containers/${guest.uuid}`
    if (onStandby) {
      const other = hosts[(hosts.indexOf(host) + 1 + (this.#round % 2)) % hosts.length]!
      await this.#ask('PUT', `${path}/standby`, { host_id: other, interval_minutes: 1 })
      const hasCopy = async (): Promise<boolean> => (await this.#read(`${path}/standby`))['last_increment_at'] !== ''
      await waitFor(hasCopy, { timeoutMs: deadlineMs, what: `the standby of ${guest.name}` })
    } else {
      const before = await this.#countBackups(guest)
      await this.#ask('POST', `${path}/backups`, { target_id: this.targetId })
      const isBackedUp = async (): Promise<boolean> => (await this.#countBackups(guest)) > before
      await waitFor(isBackedUp, { timeoutMs: deadlineMs, what: `the backup of ${guest.name}` })
    }
  }

  #contentOf({ name }: Guest): string {
    return `disk of ${name} in round ${this.#round}`
  }

  async #countBackups({ uuid }: Guest): Promise<number> {
    return ((await this.#read(`/containers/${uuid}/backups`))['backups'] as unknown[]).length
  }

  /** Boots the failed host: perhaps first without a connection to the gateway, and perhaps several times. */
  async #return(host: string, { isolatedBoots, afterMs, isolatedMs }: Absence): Promise<void> {
    const agent = this.#agentOf(host)
    const { address } = agent
    await delay(afterMs)
    for (let boot = 0; boot < isolatedBoots; boot++) {
      await agent.resume(`127.0.0.1:${await freePort()}`)
      await delay(isolatedMs)
      await (boot + 1 < isolatedBoots ? agent.powerOff() : agent.stop())
    }
    await agent.resume(address)
  }

  /** Restores the guests of the host elsewhere. A host that has returned already is refused. */
  async #evacuate(host: string): Promise<Reply> {
    const reply = await this.gateway.request('POST', `/hosts/${host}/evacuate`, { body: { confirm: host } })
    if (reply.status !== 202) expect(reply.body.code, reply.text).to.equal('invalid_state')
    return reply
  }

  async #waitForEnd(host: string): Promise<void> {
    const path = `/hosts/${host}/drain`
    let drain: Body = {}
    const hasEnded = async (): Promise<boolean> => {
      drain = await this.#read(path)
      return drain['mode'] === 'evacuate' && drain['ended_at'] !== ''
    }
    await waitFor(hasEnded, { timeoutMs: deadlineMs, what: () => `the end of ${JSON.stringify(drain)}` })
  }

  /** Waits until the guest runs on one host, which the gateway shows. */
  async #expectOneCopy(guest: Guest, failed: string): Promise<void> {
    const runningOn = (): string[] => hosts.filter((id) => this.#agentOf(id).host.driver.running.has(guest.uuid))
    const isSettled = (): boolean => runningOn().join() === this.#hostOf(guest)
    const what = (): string =>
      `round ${this.#round}: ${guest.name}, shown on ${this.#hostOf(guest)}, to run only there, not on "${runningOn().join()}": ` +
      JSON.stringify(hosts.map((id) => this.#describe(id, guest)))
    await waitFor(isSettled, { timeoutMs: deadlineMs, what })
    const host = this.#hostOf(guest)
    if (host !== failed) this.restored++
  }

  #checkContent(guest: Guest): void {
    const host = this.#hostOf(guest)
    const content = this.#agentOf(host).host.contents.get(guest.uuid)
    if (content !== this.#contentOf(guest))
      this.violations.push(`round ${this.#round}: ${guest.name} on ${host} contains "${content}"`)
  }

  #describe(host: string, { uuid }: Guest): unknown {
    const found = this.#agentOf(host)
      .guests()
      .find((one) => one.uuid === uuid)
    return {
      host,
      status: found?.status,
      wanted: found?.wanted,
      reason: found?.statusReason,
      ownership: found?.ownership,
    }
  }

  /** Deletes old copies and standbys, and opens the host for new guests. */
  async #tidy(host: string): Promise<void> {
    const hasOnlyOwn = async (): Promise<boolean> => {
      const copies = (await this.#read(`/hosts/${host}/copies`)) as { container_uuid: string }[]
      for (const copy of copies)
        await this.gateway.request('DELETE', `/hosts/${host}/copies/${copy.container_uuid}?force=true`)
      return this.#guests.every(({ uuid }) => this.#hostOf({ uuid }) === host || !this.#has(host, uuid))
    }
    await waitFor(hasOnlyOwn, { timeoutMs: deadlineMs, what: `the deletion of the old copies on ${host}` })
    for (const { uuid } of this.#guests) await this.gateway.request('DELETE', `/containers/${uuid}/standby`)
    await this.#ask('POST', `/hosts/${host}/undrain`)
  }

  #has(host: string, uuid: string): boolean {
    const agent = this.#agentOf(host)
    return agent.host.volumes.has(uuid) || agent.guests().some((guest) => guest.uuid === uuid)
  }

  #waitForState(host: string, state: string): Promise<unknown> {
    const isReached = (): boolean => this.gateway.fleet.findHost(host)?.state === state
    return waitFor(isReached, { timeoutMs: deadlineMs, what: `${host} ${state}` })
  }

  async #read(path: string): Promise<Body> {
    return (await this.#send('GET', path)).body.data
  }

  async #ask(method: string, path: string, body?: object): Promise<void> {
    await this.#send(method, path, body)
  }

  /** Sends a request, and repeats it while the store does not answer. */
  async #send(method: string, path: string, body?: object): Promise<Reply> {
    let reply: Reply | undefined
    const isAnswered = async (): Promise<boolean> => {
      reply = await this.gateway.request(method, path, body ? { body } : {})
      return reply.status !== 503
    }
    await waitFor(isAnswered, { timeoutMs: deadlineMs, what: () => `${method} ${path}: ${reply?.text}` })
    expect(reply!.status, `${method} ${path}: ${reply!.text}`).to.be.below(300)
    return reply!
  }
}
