import { expect } from 'chai'
import { setTimeout as delay } from 'node:timers/promises'
import { joinGateway } from '../../agent/enrollment/join.js'
import { BerthError } from '../../shared/errors.js'
import { endLeftGateway, GatewayProcess } from '../support/gateway/gateway-process.js'
import { LabAgent } from '../support/memory/lab-agent.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

const kills = Number(process.env['BERTH_TEST_KILLS'] ?? 3)
/** Number of guests on the drained host, and number of those whose moves always fail. */
const guests = Number(process.env['BERTH_TEST_GUESTS'] ?? 20)
const failing = Math.ceil(guests / 20)
const root = 'btest-drain-kill'
const slow = { timeoutMs: 600_000, intervalMs: 100 }

interface DrainAnswer {
  readonly state: string
  readonly containers: readonly { readonly state: string }[]
}

/** Drains one of four hosts of a real gateway. The disks of the hosts are in memory. */
describe(`a drain of ${guests} guests while gateway and agents are killed ${kills} times`, function () {
  this.timeout(1_200_000)
  let gateway: GatewayProcess
  const hosts: { readonly id: string; readonly agent: LabAgent }[] = []
  let wipe: (() => void) | undefined

  before(async () => {
    const directory = `/var/tmp/${root}/gateway`
    await endLeftGateway(directory)
    wipe = scratchDirectory(root).wipe
    gateway = await GatewayProcess.create(directory)
    gateway.start()
    await gateway.ready()
    for (const name of ['first', 'second', 'third', 'fourth']) hosts.push(await addHost(name))
    const { agent } = hosts[0]!
    agent.seed(guests)
    for (const { uuid, name } of agent.guests()) agent.host.contents.set(uuid, `disk of ${name}`)
    await waitFor(async () => (await read<unknown[]>('/containers?limit=200'))?.length === guests, {
      what: 'all guests',
    })
  })
  after(async () => {
    await gateway?.close()
    for (const { agent } of hosts) await agent.destroy()
    wipe?.()
  })

  async function addHost(name: string): Promise<{ id: string; agent: LabAgent }> {
    const added = await gateway.request('POST', '/hosts', { body: { name, address: '127.0.0.1:1' } })
    const { join_token: token, host } = added.body.data as { join_token: string; host: { id: string } }
    const identityDir = `/var/tmp/${root}/identity-${name}`
    await joinGateway(token, identityDir)
    const agent = await LabAgent.start({ identityDir, parallel: 8 })
    await gateway.request('PATCH', `/hosts/${host.id}`, { body: { address: agent.address } })
    await waitFor(async () => (await read<{ status: string }>(`/hosts/${host.id}`))?.status === 'online', {
      what: `${name} online`,
    })
    return { id: host.id, agent }
  }

  /** Reads from the API. @returns undefined while the gateway does not answer */
  async function read<T>(path: string): Promise<T | undefined> {
    const reply = await gateway.request('GET', path).catch(() => undefined)
    return reply?.status === 200 ? (reply.body.data as T) : undefined
  }

  const resultsOf = (drain: DrainAnswer | undefined): Record<string, number> => {
    const counts: Record<string, number> = {}
    for (const { state } of drain?.containers ?? []) counts[state] = (counts[state] ?? 0) + 1
    return counts
  }

  /** Makes each copy of the disks of some guests fail. */
  function failCopies(agent: LabAgent, uuids: ReadonlySet<string>): void {
    agent.observer = ({ step, phase, operationId }) => {
      if (step !== 'copy' || phase !== 'before-run') return
      const { id } = agent.domain.engine.store.findJournaled(operationId)!.record.subject
      if (uuids.has(id)) throw new BerthError('unavailable', 'target_unreachable', 'a fault of the test')
    }
  }

  it('moves each guest only once, and keeps a guest running on its host if its move fails', async () => {
    const source = hosts[0]!
    const all = source.agent.guests().map(({ uuid }) => uuid)
    const staying = new Set(all.slice(0, failing))
    failCopies(source.agent, staying)
    const path = `/hosts/${source.id}/drain`
    expect((await gateway.request('POST', path, { body: { parallel: 8 } })).status).to.equal(202)
    for (let kill = 0; kill < kills; kill++) {
      const moved = resultsOf(await read<DrainAnswer>(path))['done'] ?? 0
      await waitFor(
        async () => {
          const drain = await read<DrainAnswer>(path)
          return (resultsOf(drain)['done'] ?? 0) > moved || drain?.state === 'done'
        },
        { ...slow, what: 'the next move' },
      )
      await gateway.kill()
      await hosts[kill % hosts.length]!.agent.restart()
      await delay(100)
      gateway.start()
      await gateway.ready()
    }
    // The drain itself ends later, after all attempts to move the failing guests. These attempts take a minute.
    await waitFor(async () => resultsOf(await read<DrainAnswer>(path))['done'] === guests - failing, {
      ...slow,
      what: 'all moves',
    })
    for (const uuid of all) await expectOneCopy(uuid, staying.has(uuid))
  })

  /** Checks that exactly one host runs the guest, and that no other host has a disk or a record of it. */
  async function expectOneCopy(uuid: string, isAtSource: boolean): Promise<void> {
    const running = hosts.filter(({ agent }) => agent.host.driver.running.has(uuid))
    expect(
      running.map(({ id }) => id),
      uuid,
    ).to.have.length(1)
    expect(running[0] === hosts[0]).to.equal(isAtSource)
    for (const host of hosts) {
      const has = host === running[0]
      const name = (): string => `${uuid} on ${host.id}`
      await waitFor(() => host.agent.host.contents.has(uuid) === has, { ...slow, what: () => `the disk of ${name()}` })
      await waitFor(() => host.agent.guests().some((guest) => guest.uuid === uuid) === has, {
        ...slow,
        what: () => `the record of ${name()}`,
      })
    }
  }
})
