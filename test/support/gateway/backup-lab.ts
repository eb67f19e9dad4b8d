import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { LabAgent } from '../memory/lab-agent.js'
import { memoryTargets } from '../memory/memory-backups.js'
import { startTestGateway, type Reply, type RequestOptions, type TestGateway } from './test-gateway.js'
import { waitFor } from '../wait.js'

export type Row = Record<string, unknown>

/** A gateway with two agents that execute operations, a backup target, and a stopped guest on `host-a`. */
export class BackupLab {
  gateway!: TestGateway
  agent!: LabAgent
  guest!: Guest
  path = ''
  targetId = ''

  async start(): Promise<void> {
    this.gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
    for (const host of ['host-a', 'host-b']) await this.gateway.fleet.work(host)
    this.agent = this.gateway.fleet.agentOf('host-a')
  }

  close(): Promise<void> {
    return this.gateway.close()
  }

  /** Adds a backup target, and a guest whose disk contains the text `first`. */
  async begin(): Promise<void> {
    this.targetId = await this.addTarget('disk')
    this.guest = await this.gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' })
    this.path = `/containers/${this.guest.id}/backups`
    this.write('first')
  }

  /** Removes all injected faults and all backup targets. */
  async end(): Promise<void> {
    const { backupFaults, faults } = this.agent.host
    for (const name of Object.keys(backupFaults)) delete backupFaults[name as 'send']
    for (const name of Object.keys(faults)) delete faults[name as 'start']
    const { body } = await this.gateway.request('GET', '/backup-targets')
    for (const { id } of body.data as unknown as Row[])
      await this.gateway.request('DELETE', `/backup-targets/${String(id)}?force=true`)
  }

  addTarget = async (name: string): Promise<string> => {
    const body = { name, type: 'local', path: '/srv/backups', encryption_password: 'a-password-of-it' }
    const answer = await this.gateway.request('POST', '/backup-targets', { body })
    expect(answer.status, answer.text).to.equal(201)
    return answer.body.data.id as string
  }
  write = (text: string): unknown => this.agent.host.contents.set(this.guest.uuid, text)
  content = (): string | undefined => this.agent.host.contents.get(this.guest.uuid)
  kept = (): string[] =>
    [...(memoryTargets.get(this.targetId)?.get(this.guest.uuid)?.values() ?? [])].map(({ content: text }) => text)
  ask = (options: RequestOptions = {}): Promise<Reply> => this.gateway.request('POST', this.path, options)
  task = async (id: string): Promise<Row> => (await this.gateway.request('GET', `/tasks/${id}`)).body.data as Row
  ended = async ({ status, body, text }: Reply): Promise<Row> => {
    expect(status, text).to.equal(202)
    const id = body.data.task_id as string
    await waitFor(async () => !['pending', 'running'].includes(String((await this.task(id))['status'])), {
      what: 'the end of the task',
    })
    return this.task(id)
  }
  backUp = async (options: RequestOptions = {}): Promise<string> => {
    const done = await this.ended(await this.ask(options))
    expect(done['status'], String(done['error'])).to.equal('done')
    return done['id'] as string
  }
  rows = async (): Promise<Row[]> =>
    ((await this.gateway.request('GET', this.path)).body.data as { backups: Row[] }).backups
  restore = (id: string, options: RequestOptions = {}): Promise<Reply> =>
    this.gateway.request('POST', `${this.path}/${id}/restore`, options)
  remove = (id: string): Promise<Reply> => this.gateway.request('DELETE', `${this.path}/${id}`)
  detail = async (): Promise<Row> =>
    (await this.gateway.request('GET', `/containers/${this.guest.id}`)).body.data as Row
  run = async (): Promise<void> => {
    this.agent.host.driver.run(this.guest.uuid)
    this.agent.update(this.guest.uuid, { status: 'running', wanted: 'running' })
    await this.gateway.fleet.caughtUp('host-a')
  }
  snapshotsLeft = (): number => this.agent.host.snapshots.get(this.guest.uuid)?.size ?? 0
}
