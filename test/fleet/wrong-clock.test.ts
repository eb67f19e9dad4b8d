import { expect } from 'chai'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { joinGateway } from '../../agent/enrollment/join.js'
import { GatewayProcess } from '../support/gateway/gateway-process.js'
import { LabAgent } from '../support/memory/lab-agent.js'
import { freePort } from '../support/ports.js'
import { waitFor } from '../support/wait.js'

const fakeClock = '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1'

/** Runs the real gateway with a wall clock that the test can change, and an agent with the right time. */
describe('a gateway with a wrong clock', function () {
  let directory: string
  let gateway: GatewayProcess
  let agent: LabAgent
  let hostId: string

  const setClock = (offset: string): void => writeFileSync(join(directory, 'clock'), `${offset}\n`)
  const start = (): void =>
    gateway.start(undefined, {
      LD_PRELOAD: fakeClock,
      FAKETIME_TIMESTAMP_FILE: join(directory, 'clock'),
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    })
  const request = async <T>(method: string, path: string, body?: object): Promise<T> => {
    const reply = await gateway.request(method, path, body ? { body } : {})
    expect(reply.status, JSON.stringify(reply.body)).to.be.below(300)
    return (reply.body as { data: T }).data
  }
  const stateOf = async (): Promise<string | undefined> =>
    (await request<{ id: string; status: string }[]>('GET', '/hosts')).find(({ id }) => id === hostId)?.status
  const serial = (): string => agent.tls.identity().serial
  const online = async (what: string): Promise<unknown> =>
    waitFor(async () => (await stateOf()) === 'online', {
      what: () => `${what}\n${gateway.logTail()}`,
    })

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'btest-clock-'))
    gateway = await GatewayProcess.create(join(directory, 'gateway'))
    setClock('+0')
    start()
    await gateway.ready()
    const listen = `127.0.0.1:${await freePort()}`
    const added = await request<{ host: { id: string }; join_token: string }>('POST', '/hosts', {
      name: 'one',
      address: listen,
    })
    hostId = added.host.id
    const identityDir = join(directory, 'identity')
    await joinGateway(added.join_token, identityDir)
    agent = await LabAgent.start({ identityDir, listen })
    agent.seed(2)
    await online('the host is online')
  })
  after(async () => {
    await agent?.destroy()
    await gateway?.close()
    rmSync(directory, { recursive: true, force: true })
  })

  for (const offset of ['+40d', '-40d'])
    it(`stays connected to its host, and issues no certificates, while its clock is off by ${offset.replace('d', ' days')}`, async () => {
      const before = serial()
      const seen: (string | undefined)[] = []
      setClock(offset)
      for (const until = performance.now() + 7000; performance.now() < until;) {
        seen.push(await stateOf())
        await new Promise((resolve) => setTimeout(resolve, 500))
      }
      expect(new Set(seen)).to.deep.equal(new Set(['online']))
      setClock('+0')
      expect(serial(), 'the agent’s certificate').to.equal(before)
      await agent.stop()
      await agent.resume()
      await online(`online after the clock was off by ${offset}`)
      await waitFor(
        async () => {
          const reply = await gateway.request('GET', `/routing?host_id=${hostId}`)
          return reply.status === 200
        },
        { what: () => `the agent answers\n${gateway.logTail()}` },
      )
      expect(serial()).to.equal(before)
    })

  for (const offset of ['+25d'])
    it(`recovers with a corrected clock if it started with a clock ${offset.replace('d', ' days')} off`, async () => {
      await gateway.kill('SIGTERM')
      const before = serial()
      setClock(offset)
      start()
      await gateway.ready()
      await new Promise((resolve) => setTimeout(resolve, 6000))
      expect(serial(), 'nothing is issued').to.equal(before)
      setClock('+0')
      await online(`online after a start with the clock off by ${offset}`)
      const reply = await gateway.request('GET', `/routing?host_id=${hostId}`)
      expect(reply.status).to.equal(200)
    })
})
