import { join } from 'node:path'
import { expect } from 'chai'
import { joinGateway } from '../../agent/enrollment/join.js'
import type { Body } from '../support/body.js'
import { endLeftGateway, GatewayProcess, type GatewayReply } from '../support/gateway/gateway-process.js'
import { LabAgent } from '../support/memory/lab-agent.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

const scratch = 'btest-moved-standbys'
const settings = { interval_minutes: 7, bandwidth_mbps: 50 }

interface LabHost {
  readonly id: string
  readonly agent: LabAgent
}

describe('the warm standby of a guest that moves', function () {
  let gateway: GatewayProcess
  const hosts: LabHost[] = []
  let wipe: () => void
  let lastId = 100

  before(async () => {
    const directory = join('/var/tmp', scratch)
    await endLeftGateway(join(directory, 'gateway'))
    wipe = scratchDirectory(scratch).wipe
    gateway = await GatewayProcess.create(join(directory, 'gateway'))
    gateway.start()
    await gateway.ready()
    for (const name of ['a', 'b', 'c']) await addHost(directory, name)
  })
  after(async () => {
    await gateway?.close()
    await Promise.all(hosts.map(({ agent }) => agent.destroy()))
    wipe?.()
  })

  async function addHost(directory: string, name: string): Promise<void> {
    const added = await gateway.request('POST', '/hosts', { body: { name, address: '127.0.0.1:1' } })
    const { join_token, host } = added.body.data as { join_token: string; host: { id: string } }
    const identityDir = join(directory, `identity-${name}`)
    await joinGateway(join_token, identityDir)
    const agent = await LabAgent.start({ identityDir, stateDir: join(directory, `agent-${name}`) })
    hosts.push({ id: host.id, agent })
    await gateway.request('PATCH', `/hosts/${host.id}`, { body: { address: agent.address } })
    await hostBecomes(host.id, 'online')
  }

  const hostBecomes = (id: string, status: string): Promise<unknown> =>
    waitFor(async () => (await read(`/hosts/${id}`)).status === status, { what: `${id} ${status}` })

  async function read(path: string): Promise<Body> {
    return (await gateway.request('GET', path).catch(() => undefined))?.body.data ?? {}
  }

  async function ask(method: string, path: string, body: object): Promise<GatewayReply> {
    const reply = await gateway.request(method, path, { body })
    expect(reply.status, JSON.stringify(reply.body)).to.be.below(300)
    return reply
  }

  /** Adds a guest with a complete copy on the host of its standby. @returns its id */
  async function addGuest(on: LabHost, standby: LabHost): Promise<number> {
    const { id, uuid, name } = on.agent.addGuest({ id: ++lastId })
    on.agent.host.contents.set(uuid, `disk of ${name}`)
    await waitFor(async () => (await gateway.request('GET', `/containers/${id}`)).status === 200, { what: name })
    await ask('PUT', `/containers/${id}/standby`, { host_id: standby.id, ...settings })
    await copied(id, on, standby)
    return id
  }

  async function move(id: number, to: LabHost): Promise<void> {
    const task = (await ask('POST', `/containers/${id}/migrate`, { host_id: to.id })).body.data.task_id as string
    await waitFor(async () => (await read(`/tasks/${task}`)).status === 'done', { what: () => gateway.logTail() })
  }

  const standbyOf = (id: number): Promise<Body> => read(`/containers/${id}/standby`)

  /** Waits for a complete copy from one host on another one, and expects the settings and no other copy. */
  async function copied(id: number, from: LabHost, to: LabHost): Promise<void> {
    const { uuid } = await read(`/containers/${id}`)
    const copiesOn = async ({ agent }: LabHost): Promise<string[]> =>
      (await agent.domain.standbys.copies.list()).flatMap((copy) =>
        copy.uuid === uuid && copy.snapshot !== undefined ? [copy.fromHostId] : [],
      )
    const isCopied = async (): Promise<boolean> => (await copiesOn(to)).includes(from.id)
    await waitFor(isCopied, { what: () => `the copy of ${id}\n${gateway.logTail()}` })
    await waitFor(async () => (await standbyOf(id)).age_seconds >= 0, { what: () => gateway.logTail() })
    expect(await standbyOf(id)).to.include({ host_id: to.id, ...settings, failures: 0, error: '' })
    for (const host of hosts) expect(await copiesOn(host)).to.deep.equal(host === to ? [from.id] : [])
  }

  it('stays on its host, with the same settings', async () => {
    const [a, b, c] = hosts as [LabHost, LabHost, LabHost]
    const id = await addGuest(a, b)
    await move(id, c)
    await copied(id, c, b)
  })

  it('changes to the former host of the guest if the guest moves to the standby’s host, and changes back later', async () => {
    const [a, b] = hosts as [LabHost, LabHost]
    const id = await addGuest(a, b)
    await move(id, b)
    await copied(id, b, a)
    await move(id, a)
    await copied(id, a, b)
  })

  it('ends with an audit entry if the guest moved to its host because the former host is drained', async () => {
    const [a, b, c] = hosts as [LabHost, LabHost, LabHost]
    const id = await addGuest(c, b)
    await a.agent.stop()
    await hostBecomes(a.id, 'offline')
    await ask('POST', `/hosts/${c.id}/drain`, {})
    await waitFor(async () => (await read(`/containers/${id}`)).host_id === b.id, { what: () => gateway.logTail() })
    const query = 'action=container.standby_remove&user=system'
    const entries = async (): Promise<Body[]> => (await read(`/audit-logs?${query}`)) as Body[]
    await waitFor(async () => (await entries()).length > 0, { what: () => gateway.logTail() })
    expect((await entries())[0]!.detail).to.include('host c is draining')
    await waitFor(async () => (await standbyOf(id)).host_id === '', { what: 'no standby' })
    await a.agent.resume()
    await hostBecomes(a.id, 'online')
    await ask('POST', `/hosts/${c.id}/undrain`, {})
  })

  it('shows a failure if its host is offline', async () => {
    const [a, b, c] = hosts as [LabHost, LabHost, LabHost]
    const id = await addGuest(a, b)
    await b.agent.stop()
    await hostBecomes(b.id, 'offline')
    await move(id, c)
    await waitFor(async () => (await standbyOf(id)).failures > 0, { what: () => gateway.logTail() })
    expect(await standbyOf(id)).to.include({ host_id: b.id, ...settings, error: 'host b is offline' })
    await b.agent.resume()
    await hostBecomes(b.id, 'online')
  })

  for (const moment of ['before', 'after'] as const)
    it(`is set again if gateway and agent are killed ${moment} the new host has stored it`, async () => {
      const [a, b, c] = hosts as [LabHost, LabHost, LabHost]
      const id = await addGuest(a, b)
      let killed: Promise<void> | undefined
      const { store } = c.agent.domain.context
      const update = store.update.bind(store)
      store.update = (uuid, change) => {
        if (!change.standby || killed) return update(uuid, change)
        killed = gateway.kill()
        if (moment === 'before') throw new Error('the agent is killed')
        return update(uuid, change)
      }
      await ask('POST', `/containers/${id}/migrate`, { host_id: c.id })
      await waitFor(() => killed !== undefined, { what: () => gateway.logTail() })
      await killed
      await c.agent.restart()
      gateway.start()
      await gateway.ready()
      await copied(id, c, b)
    })
})
