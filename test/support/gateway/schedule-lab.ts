import { expect } from 'chai'
import type { GuestRecord } from '../../../agent/guests/record/record.js'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { LabAgent } from '../memory/lab-agent.js'
import { startTestGateway, type Reply, type TestGateway } from './test-gateway.js'
import { waitFor } from '../wait.js'

export type Row = Record<string, unknown>

/** Time of the agent's clock at the beginning of a test. */
export const begin = Date.UTC(2027, 4, 3, 10, 0, 0)
export const dayMs = 86_400_000
export const daily = { enabled: true, interval_hours: 24, time: '03:30' }

/** A gateway whose agent's clock is set by the test, for tests of either scheduled snapshots or scheduled backups. */
export class ScheduleLab {
  gateway!: TestGateway
  agent!: LabAgent
  guest!: Guest
  nowMs = begin

  /** @param kind what the tested schedules create; it is part of the API's paths and fields */
  constructor(readonly kind: 'snapshot' | 'backup') {}

  async start(): Promise<void> {
    this.gateway = await startTestGateway()
    await this.gateway.fleet.work('host-a')
    this.agent = this.gateway.fleet.agentOf('host-a')
    this.agent.now = () => this.nowMs
  }

  /** Creates a new guest and resets the clock. */
  async begin(): Promise<void> {
    this.nowMs = begin
    this.guest = await this.gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' })
  }

  get path(): string {
    return `/containers/${this.guest.id}/${this.kind}s`
  }

  get record(): GuestRecord {
    return this.agent.guests().find(({ uuid }) => uuid === this.guest.uuid)!
  }

  get nextMs(): number {
    return this.record[`${this.kind}Schedule`].nextRunMs
  }

  set = (body: unknown, key?: string): Promise<Reply> =>
    this.gateway.request('POST', `${this.path}/schedule`, { body, ...(key !== undefined && { key }) })

  /** Sets a schedule. @returns the container as the response shows it */
  isSet = async (body: unknown): Promise<Row> => {
    const { status, body: answer, text } = await this.set(body)
    expect(status, text).to.equal(200)
    return answer.data.container as Row
  }

  /** Reads the schedule. `copies` are the guest's snapshots or backups, depending on `kind`. */
  read = async (): Promise<{ quota: number; schedule: Row; copies: Row[] }> => {
    const { data } = (await this.gateway.request('GET', this.path)).body
    return {
      quota: data.quota as number,
      schedule: data.schedule as Row,
      copies: data[`${this.kind}s`] as Row[],
    }
  }

  tasks = async (): Promise<Row[]> =>
    ((await this.gateway.request('GET', '/tasks')).body.data as Row[]).filter(
      ({ container_id: id, action }) => id === this.guest.id && action === `${this.kind}-scheduled`,
    )

  isBusy = (): boolean => {
    const kind = this.kind === 'backup' ? 'backup' : 'guest'
    return this.agent.domain.engine.busy({ kind, id: this.guest.uuid })
  }

  /** Lets the agent check whether a snapshot or backup is due. */
  look(): void {
    this.agent.domain[`${this.kind}s`].look()
  }

  /** Sets the clock, lets the agent check which operations are due, and waits until these operations have ended. */
  lookAt = async (ms: number): Promise<void> => {
    this.nowMs = ms
    this.look()
    await waitFor(() => !this.isBusy(), { what: 'no operation in progress' })
    await this.gateway.fleet.caughtUp('host-a')
  }

  runNext = (): Promise<void> => this.lookAt(this.nextMs)
}
