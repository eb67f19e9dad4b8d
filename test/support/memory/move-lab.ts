import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Closers } from '../../../agent/daemon/closers.js'
import type { GuestMoveRequest } from '../../../gateway/fleet/move-contract.js'
import type { Store } from '../../../gateway/store/store.js'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { silentLog, startTestRedis } from '../gateway/redis.js'
import { waitFor } from '../wait.js'
import type { LabAgent, LabGuest } from './lab-agent.js'
import { LabFleet } from './lab-fleet.js'

/** A fleet with two hosts, `host-a` and `host-b`. Guests are created on the first, and move to the second. */
export class MoveLab {
  private constructor(
    readonly store: Store,
    readonly fleet: LabFleet,
    private readonly places: { readonly stateDir: string; readonly redisUrl: string },
    private readonly closers: Closers,
  ) {}

  /** State directory of the gateway. */
  get stateDir(): string {
    return this.places.stateDir
  }

  get redisUrl(): string {
    return this.places.redisUrl
  }

  /** @param agentConfig settings in the agent.yaml of each agent */
  static async start(agentConfig: Record<string, unknown> = {}): Promise<MoveLab> {
    const closers = new Closers()
    try {
      return await MoveLab.#open(closers, agentConfig)
    } catch (error) {
      await closers.run()
      throw error
    }
  }

  static async #open(closers: Closers, agentConfig: Record<string, unknown>): Promise<MoveLab> {
    const stateDir = await mkdtemp(join(tmpdir(), 'btest-fleet-moves-'))
    closers.add(() => rm(stateDir, { recursive: true, force: true }))
    const redis = await startTestRedis()
    closers.add(() => redis.stop())
    const store = await redis.openStore('btest:')
    const hosts = ['host-a', 'host-b']
    const fleet = await LabFleet.start({ store, stateDir, log: silentLog, hosts, agentConfig })
    closers.add(() => fleet.close())
    for (const id of hosts) await fleet.work(id)
    return new MoveLab(store, fleet, { stateDir, redisUrl: redis.url }, closers)
  }

  close(): Promise<void> {
    return this.closers.run()
  }

  /** Removes what a test has set at the agents. */
  reset(): void {
    for (const agent of this.fleet.agents.values()) {
      agent.observer = undefined
      agent.now = Date.now
    }
  }

  get source(): LabAgent {
    return this.fleet.agents.get('host-a')!
  }

  get target(): LabAgent {
    return this.fleet.agents.get('host-b')!
  }

  requestFor(guest: Guest): GuestMoveRequest {
    return {
      operationId: randomUUID(),
      guest: this.fleet.view.findGuest(guest.uuid)!,
      toHostId: 'host-b',
      bandwidthMbps: 0,
      offline: false,
      requestedBy: 'admin',
    }
  }

  statusOf(id: string): string {
    return this.fleet.view.findOperation(id)?.operation.status ?? ''
  }

  async addGuest(fields: LabGuest = {}): Promise<Guest> {
    const guest = await this.fleet.addGuest(fields)
    this.source.host.contents.set(guest.uuid, `disk of ${guest.name}`)
    return guest
  }

  /** Moves a guest. @returns the final status of the operation */
  async move(guest: Guest, choice: Partial<Pick<GuestMoveRequest, 'offline'>> = {}): Promise<string> {
    return this.#runMove({ ...this.requestFor(guest), ...choice })
  }

  async #runMove(request: GuestMoveRequest): Promise<string> {
    await this.fleet.relocation.moves.begin(request)
    await waitFor(() => ['done', 'failed', 'canceled'].includes(this.statusOf(request.operationId)), {
      what: () => `the end of ${JSON.stringify(this.fleet.view.findOperation(request.operationId))}`,
    })
    return this.statusOf(request.operationId)
  }

  /** Moves a guest, and expects that the move succeeds. */
  async moveDone(guest: Guest, choice: Partial<Pick<GuestMoveRequest, 'offline'>> = {}): Promise<void> {
    const request = { ...this.requestFor(guest), ...choice }
    const status = await this.#runMove(request)
    expect(status, JSON.stringify(this.fleet.view.findOperation(request.operationId))).to.equal('done')
  }

  /** Expects that only this host has a copy of the guest, that this copy runs, and that the store has no move. */
  async expectOnlyAt(hostId: string, { uuid, name }: Guest): Promise<void> {
    const { store, fleet } = this
    const key = store.key('guest-moves')
    await waitFor(async () => (await store.client.hLen(key)) === 0, { what: 'no move in the store' })
    await waitFor(() => fleet.view.findGuest(uuid)?.hostId === hostId, { what: `${name} shown on ${hostId}` })
    await waitFor(() => fleet.agents.get(hostId)!.host.driver.running.has(uuid), {
      what: `${name} running on ${hostId}`,
    })
    for (const [id, agent] of fleet.agents) {
      const { host } = agent
      expect(host.driver.running.has(uuid), `running on ${id}`).to.equal(id === hostId)
      await waitFor(() => host.volumes.has(uuid) === (id === hostId), { what: `the volume on ${id}` })
      expect(host.contents.get(uuid), `disk on ${id}`).to.equal(id === hostId ? `disk of ${name}` : undefined)
      expect([...(host.snapshots.get(uuid)?.keys() ?? [])], `snapshots on ${id}`).to.deep.equal([])
      expect(
        agent.guests().some((guest) => guest.uuid === uuid),
        `recorded on ${id}`,
      ).to.equal(id === hostId)
    }
  }
}
