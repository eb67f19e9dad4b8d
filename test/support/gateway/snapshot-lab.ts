import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { LabAgent } from '../memory/lab-agent.js'
import { startTestGateway, type Reply, type RequestOptions, type TestGateway } from './test-gateway.js'

export type Row = Record<string, unknown>

/** A gateway whose agent executes operations, with a stopped guest and its snapshots. */
export class SnapshotLab {
  gateway!: TestGateway
  agent!: LabAgent
  guest!: Guest
  path = ''

  async start(): Promise<void> {
    this.gateway = await startTestGateway()
    await this.gateway.fleet.work('host-a')
    this.agent = this.gateway.fleet.agentOf('host-a')
  }

  close(): Promise<void> {
    return this.gateway.close()
  }

  /** Creates a new guest whose disk contains `first`. */
  async begin(): Promise<void> {
    this.guest = await this.gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' })
    this.path = `/containers/${this.guest.id}/snapshots`
    this.write('first')
  }

  endFaults(): void {
    const { faults } = this.agent.host
    for (const name of Object.keys(faults)) delete faults[name as 'snapshot']
  }

  write = (text: string): unknown => this.agent.host.contents.set(this.guest.uuid, text)
  content = (): string | undefined => this.agent.host.contents.get(this.guest.uuid)
  /** Returns the disk contents in the guest's snapshots on the host. */
  kept = (): string[] => [...(this.agent.host.snapshots.get(this.guest.uuid)?.values() ?? [])]
  take = (options: RequestOptions = {}): Promise<Reply> => this.gateway.request('POST', this.path, options)
  taken = async (options: RequestOptions = {}): Promise<string> => {
    const { status, body, text } = await this.take(options)
    expect(status, text).to.equal(201)
    return body.data.id as string
  }
  read = async (): Promise<{ quota: number; schedule: Row; snapshots: Row[] }> =>
    (await this.gateway.request('GET', this.path)).body.data as never
  ids = async (): Promise<unknown[]> => (await this.read()).snapshots.map(({ id }) => id)
  restore = (id: string): Promise<Reply> => this.gateway.request('POST', `${this.path}/${id}/restore`)
  remove = (id: string): Promise<Reply> => this.gateway.request('DELETE', `${this.path}/${id}`)
  setQuota = (body: unknown): Promise<Reply> => this.gateway.request('PUT', `${this.path}/quota`, { body })
  run = async (): Promise<void> => {
    this.agent.host.driver.run(this.guest.uuid)
    this.agent.update(this.guest.uuid, { status: 'running', wanted: 'running' })
    await this.gateway.fleet.caughtUp('host-a')
  }
  detail = async (): Promise<Row> =>
    (await this.gateway.request('GET', `/containers/${this.guest.id}`)).body.data as Row
}
