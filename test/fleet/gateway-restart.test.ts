import { join } from 'node:path'
import { expect } from 'chai'
import { joinGateway } from '../../agent/enrollment/join.js'
import { EventStream } from '../support/gateway/event-stream.js'
import { endLeftGateway, GatewayProcess } from '../support/gateway/gateway-process.js'
import { LabAgent, uuidOf } from '../support/memory/lab-agent.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

const name = 'btest-gateway-restart'

describe('an event stream that a client resumes after a restart of the gateway', function () {
  let gateway: GatewayProcess
  let agent: LabAgent
  let wipe: () => void
  let hostId: string
  const open: EventStream[] = []

  before(async () => {
    const directory = join('/var/tmp', name)
    await endLeftGateway(join(directory, 'gateway'))
    wipe = scratchDirectory(name).wipe
    gateway = await GatewayProcess.create(join(directory, 'gateway'))
    gateway.start()
    await gateway.ready()
    const added = await gateway.request('POST', '/hosts', { body: { name: 'lab', address: '127.0.0.1:1' } })
    const { join_token, host } = added.body.data as { join_token: string; host: { id: string } }
    hostId = host.id
    const identityDir = join(directory, 'identity')
    await joinGateway(join_token, identityDir)
    agent = await LabAgent.start({ identityDir, stateDir: join(directory, 'agent') })
    agent.seed(9)
    await gateway.request('PATCH', `/hosts/${hostId}`, { body: { address: agent.address } })
    await waitFor(async () => (await hostStatus()) === 'online', { what: 'the host online' })
  })
  afterEach(() => open.splice(0).forEach((stream) => stream.close()))
  after(async () => {
    await gateway?.close()
    await agent?.destroy()
    wipe?.()
  })

  const hostStatus = async () => {
    const reply = await gateway.request('GET', '/hosts').catch(() => undefined)
    return (reply?.body.data as { status: string }[] | undefined)?.[0]?.status
  }
  const stream = async (lastId = ''): Promise<EventStream> => {
    const headers = { 'x-api-key': gateway.adminKey, ...(lastId && { 'last-event-id': lastId }) }
    const opened = await EventStream.open(gateway.url, headers, '?kinds=guest,task,host')
    open.push(opened)
    return opened
  }
  const rename = (id: number, text: string) => agent.update(uuidOf(id), { statusReason: text })
  const reasonsIn = ({ events }: EventStream) =>
    events.filter(({ data }) => data.type === 'guest.updated').map(({ data }) => data.data?.['status_reason'])
  const sees = (listening: EventStream, text: string) =>
    waitFor(() => reasonsIn(listening).includes(text), { what: () => `${text} in ${reasonsIn(listening).join()}` })

  for (const [index, signal] of (['SIGTERM', 'SIGKILL'] as const).entries())
    it(`contains every event, even from the time without a gateway, if ${signal} ended the gateway`, async () => {
      const first = await stream()
      const own = 3 * index + 1
      rename(own, `${signal} one`)
      await sees(first, `${signal} one`)
      const { id } = first.events.at(-1)!
      rename(own, `${signal} two`)
      await sees(first, `${signal} two`)
      await gateway.kill(signal)
      rename(own, `${signal} three`)
      agent.removeGuest(uuidOf(own + 1))
      gateway.start()
      await gateway.ready()
      const second = await stream(id)
      await sees(second, `${signal} three`)
      rename(own + 2, `${signal} four`)
      await sees(second, `${signal} four`)
      expect(second.events[0]?.event).to.equal('ready')
      const expected = ['two', 'three', 'four'].map((word) => `${signal} ${word}`)
      expect(reasonsIn(second)).to.deep.equal(expected)
      const others = second.types.filter((type) => !['guest.updated', 'ready', 'beat'].includes(type ?? ''))
      expect([...new Set(others)]).to.deep.equal(['guest.removed'])
      const removed = second.events
        .filter(({ data }) => data.type === 'guest.removed')
        .map(({ data }) => data.data?.['uuid'])
      if (signal === 'SIGTERM') expect(removed).to.deep.equal([uuidOf(own + 1)])
      else expect(removed).to.include(uuidOf(own + 1)) // after a crash, earlier events may be sent again
    })

  it('reports that a host went offline while no gateway ran', async () => {
    const first = await stream()
    const { id } = await first.wait(({ event }) => event === 'ready', 'ready')
    await gateway.kill('SIGTERM')
    await agent.stop()
    gateway.start()
    await gateway.ready()
    const second = await stream(id)
    expect((await second.type('host.offline')).data.data).to.include({ id: hostId, status: 'offline' })
    await agent.resume()
    await second.type('host.online')
    expect(second.types).not.to.include('host.added')
  })
})
