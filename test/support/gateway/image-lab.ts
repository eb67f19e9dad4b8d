import { randomBytes } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { expect } from 'chai'
import { ImageServer } from '../guests/image-server.js'
import type { LabAgent } from '../memory/lab-agent.js'
import { startTestGateway, type Reply, type TestGateway } from './test-gateway.js'
import { waitFor } from '../wait.js'

export type ImageRow = Record<string, unknown>

/** A gateway whose only agent downloads images from a server of the test. The server offers `alpine-3.22`. */
export class ImageLab {
  readonly content = randomBytes(1_000_000)
  readonly agent: LabAgent

  private constructor(
    readonly gateway: TestGateway,
    readonly server: ImageServer,
  ) {
    this.agent = gateway.fleet.agentOf('host-a')
    server.add('alpine.tar.xz', this.content)
    server.offered.push({ distro: 'alpine', release: '3.22', file: 'alpine.tar.xz' })
  }

  static async start(): Promise<ImageLab> {
    const server = await ImageServer.start()
    const gateway = await startTestGateway({ agentConfig: { images: server.settings } })
    await gateway.fleet.work('host-a')
    return new ImageLab(gateway, server)
  }

  async close(): Promise<void> {
    await this.gateway.close()
    await this.server.close()
  }

  /** Resets the lab for the next test: no faults, and only the initial images, all of them enabled. */
  async reset(): Promise<void> {
    this.server.manners = {}
    const { faults } = this.agent.host
    for (const name of Object.keys(faults)) delete faults[name as 'make']
    await waitFor(async () => (await this.rows()).every(({ downloading }) => downloading === false), {
      what: 'no download',
    })
    const isLeft = ({ downloaded, id }: ImageRow): boolean => downloaded === true && id !== 'debian-12'
    for (const { id } of (await this.rows()).filter(isLeft))
      expect((await this.remove(id as string)).status).to.equal(200)
    for (const { id } of (await this.rows()).filter(({ enabled }) => enabled === false)) await this.toggle(id, true)
  }

  async rows(query = ''): Promise<ImageRow[]> {
    return (await this.gateway.request('GET', `/images${query}`)).body.data as ImageRow[]
  }

  async row(id: string): Promise<ImageRow> {
    return (await this.rows()).find((found) => found.id === id)!
  }

  async enabledIds(query = ''): Promise<unknown[]> {
    const { body } = await this.gateway.request('GET', `/images/enabled${query}`)
    return (body.data as ImageRow[]).map(({ id }) => id)
  }

  send(path: string, body: unknown, options = {}): Promise<Reply> {
    return this.gateway.request('POST', path, { body, ...options })
  }

  /** Requests the creation of a small container. */
  create(name: string, template: string): Promise<Reply> {
    const size = { ram_mb: 64, vcpu: 0.1, disk_gb: 1, start: false }
    return this.send('/containers', { ...size, name, template_id: template })
  }

  download(id: string, options = {}): Promise<Reply> {
    return this.send('/images/download', { template_id: id }, options)
  }

  cancel(id: string): Promise<Reply> {
    return this.send('/images/cancel', { template_id: id })
  }

  remove(id: string): Promise<Reply> {
    return this.gateway.request('DELETE', `/images/delete?template_id=${id}`)
  }

  toggle(id: unknown, enabled: boolean): Promise<Reply> {
    return this.gateway.request('PUT', '/images/toggle', { body: { template_id: id, enabled } })
  }

  taskOf(reply: Reply): string {
    return reply.body.tasks[0].task_id as string
  }

  ended(task: string): Promise<ImageRow> {
    return waitFor(
      async () => {
        const { data } = (await this.gateway.request('GET', `/tasks/${task}`)).body
        return data.finished_at === '' ? undefined : (data as ImageRow)
      },
      { what: 'the task to end' },
    )
  }

  /** Downloads an image and waits for the end. @returns the task */
  async downloaded(id: string): Promise<ImageRow> {
    const reply = await this.download(id)
    expect(reply.status, reply.text).to.equal(202)
    return this.ended(this.taskOf(reply))
  }

  /** Returns the names of partial downloads on the host. */
  left(): string[] {
    return readdirSync(`${this.agent.stateDir}/downloads`)
  }

  /** Starts a download that stalls after `bytes`. @returns the id of its task */
  async stalled(id: string, bytes = 400_000): Promise<string> {
    this.server.manners = { stallAfter: bytes }
    const reply = await this.download(id)
    await this.received(id, bytes)
    return this.taskOf(reply)
  }

  async received(id: string, bytes = 400_000): Promise<void> {
    await waitFor(async () => (await this.row(id)).received_bytes === bytes, {
      what: 'the stalled download',
    })
  }

  async restartAgent(): Promise<void> {
    await this.gateway.fleet.setHostState('host-a', 'offline')
    await this.gateway.fleet.setHostState('host-a', 'online')
  }
}
