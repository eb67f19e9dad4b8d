import { expect } from 'chai'
import { createServer, type Server } from 'node:net'
import { once } from 'node:events'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { pino } from 'pino'
import { Changes } from '../../state/changes.js'
import { openDatabase } from '../../state/database.js'
import type { GuestContext } from '../context.js'
import { HostPorts } from '../resources/host-ports.js'
import { GuestStore } from '../record/guest-store.js'
import { kernelFacts } from '../../network/addresses/host-facts.js'
import { PortMappings } from './port-mappings.js'
import { stoppedGuest } from '../../../test/support/guests/inserted-guest.js'

const target = { uuid: 'u1', ifRevision: 0 }
const at = (hostPort: number, protocol = 'tcp') => ({
  protocol,
  hostIp: '',
  hostPort,
  hostPortEnd: 0,
  containerPort: 22,
  containerPortEnd: 0,
  description: '',
})

describe('port mappings of a guest', () => {
  let store: GuestStore
  let mappings: PortMappings
  let server: Server
  let waitingPort: number
  /** Number of changes that were applied on the host. */
  let told: number

  before(async () => {
    server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    waitingPort = (server.address() as { port: number }).port
  })
  after(() => server.close())

  beforeEach(() => {
    store = new GuestStore(new Changes(openDatabase(':memory:')))
    store.insert(stoppedGuest)
    told = 0
    const nat_ports = { start: 1024, end: 65_535, per_guest: 50 }
    mappings = new PortMappings({
      store,
      log: pino({ level: 'silent' }),
      now: () => 5,
      config: {
        network: { interface_prefix: 'bt', nat_ports },
        security: { close_smtp: true },
      },
      network: { attach: () => Promise.resolve(void told++) },
      ports: new HostPorts({ store, config: { nat_ports }, facts: kernelFacts }),
    } as unknown as GuestContext)
  })
  afterEach(() => store.changes.db.close())

  const codeOf = (change: Promise<unknown>): Promise<string> =>
    change.then(
      () => 'accepted',
      (error: unknown) => (error as { code: string }).code,
    )

  it('cannot use a host port if a host program listens on this port with the same protocol', async () => {
    expect(await codeOf(mappings.add(target, at(waitingPort)))).to.equal('port_conflict')
    expect(await codeOf(mappings.add(target, at(waitingPort, 'udp')))).to.equal('accepted')
    expect(await codeOf(mappings.update(target, 0, { protocol: 'tcp' }))).to.equal('port_conflict')
    expect(await codeOf(mappings.update(target, 1, { protocol: 'tcp' }))).to.equal('not_found')
    expect(store.get('u1').portMappings).to.have.lengthOf(1)
  })

  it('can be changed and shortened, but not extended, if the guest already exceeds its port limit', async () => {
    const range = (end: number) => ({
      hostPort: 40_000,
      hostPortEnd: end,
      containerPort: 1,
      containerPortEnd: 0,
    })
    const { portMappings } = await mappings.add(target, { ...at(0, 'udp'), ...range(40_048) })
    store.putMapping('u1', 7, { ...portMappings[0]!, protocol: 'tcp' })
    for (const [change, code] of [
      [{ description: 'mine' }, 'accepted'],
      [range(40_049), 'resource_exhausted'],
      [range(40_047), 'accepted'],
      [range(40_048), 'resource_exhausted'],
    ] as const)
      expect(await codeOf(mappings.update(target, 0, change)), JSON.stringify(change)).to.equal(code)
    expect(await codeOf(mappings.add(target, at(0)))).to.equal('resource_exhausted')
    await mappings.remove(target, 1)
    expect(await codeOf(mappings.update(target, 0, range(40_049)))).to.equal('accepted')
  })

  it('can be added up to the limit of the caller, and each port of a range counts', async () => {
    const add = (portLimit: number | undefined, wanted = {}) =>
      codeOf(mappings.add({ ...target, portLimit }, { ...at(0, 'udp'), ...wanted }))
    const three = { containerPort: 1, containerPortEnd: 3 }
    expect(await add(2, three)).to.equal('quota_exceeded')
    expect(await add(3, three)).to.equal('accepted')
    expect(await add(3)).to.equal('quota_exceeded')
    expect(await add(4)).to.equal('accepted')
    expect(await add(0)).to.equal('quota_exceeded')
    expect(await add(undefined)).to.equal('accepted')
    expect(store.get('u1').portMappings).to.have.lengthOf(3)
  })

  it('keep a host address or port that the host no longer offers if a change concerns only other fields', async () => {
    const old = { protocol: 'tcp', containerPort: 22, containerPortEnd: 22, description: '' } as const
    store.putMapping('u1', 0, { ...old, hostIp: '198.51.100.9', hostPort: 30_001, hostPortEnd: 30_001 })
    store.putMapping('u1', 1, { ...old, hostIp: '', hostPort: 1000, hostPortEnd: 1000 })
    for (const [index, hostIp, hostPort, refusal] of [
      [0, '198.51.100.9', 30_002, 'invalid_field'],
      [1, '', 1001, 'port_conflict'],
    ] as const) {
      expect(await codeOf(mappings.update(target, index, { description: 'mine', hostIp }))).to.equal('accepted')
      expect(store.get('u1').portMappings[index]!.description).to.equal('mine')
      expect(await codeOf(mappings.update(target, index, { hostPort }))).to.equal(refusal)
    }
  })

  for (const [name, change] of [
    ['the removal of a mapping', () => mappings.remove(target, 0)],
    ['a change that keeps the host port', () => mappings.update(target, 0, { containerPort: 80 })],
  ] as const)
    it(`do not wait for a list of the host’s listening ports during ${name}`, async () => {
      await mappings.add(target, at(waitingPort, 'udp'))
      const changed = change()
      await turnOfTheLoop()
      expect(told).to.equal(2)
      await changed
    })
})
