import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { ServiceError } from '@grpc/grpc-js'
import { expect } from 'chai'
import type { GuestServiceClient, GuestSpec } from '../../proto/gen/berth/agent/v1/guest.js'
import type {
  GetRoutingResponse,
  GuestSettingsServiceClient,
  RoutingServiceClient,
} from '../../proto/gen/berth/agent/v1/network.js'
import type { OperationServiceClient } from '../../proto/gen/berth/agent/v1/operation.js'
import { call, createGuest, createRequest, operationDone, wireMapping } from '../support/agent-calls.js'
import { AgentProcess } from '../support/agent-process.js'
import { installBusyboxImage } from '../support/busybox-image.js'
import { waitFor } from '../support/wait.js'
import { WatchedHost } from '../support/watched-host.js'
import { PublicSegment } from '../support/public-segment.js'
import { sh } from '../support/sh.js'

/*
 * Public addresses and IPv6 of real guests, from the order to the packet; the public segment is a veth pair into
 * a namespace.
 */

const tag = 'ad'
const [hostAddress, outside] = ['198.18.7.1', '198.18.7.2']
const [hostAddress6, outside6] = ['2001:db8:7::1', '2001:db8:7::2']
const segment = new PublicSegment('btestpub', {
  ...{ host: hostAddress, outside, host6: hostAddress6, outside6 },
})
const { uplink } = segment
const guestPrefix = '2001:db8:7:1::'
const forwarding = 'net.ipv6.conf.all.forwarding'
const pool = Array.from({ length: 8 }, (_, i) => `198.18.7.${10 + i}`)
const packets = fileURLToPath(new URL('../support/packets.py', import.meta.url))

describe('addresses of real guests', function () {
  this.timeout(120_000)
  let agent: AgentProcess
  let guests: GuestServiceClient
  let operations: OperationServiceClient
  let settings: GuestSettingsServiceClient
  let routing: RoutingServiceClient
  let watched: WatchedHost
  let forwardedBefore = '0'
  let nextId = 1
  const children: ChildProcess[] = []

  before(async () => {
    forwardedBefore = sh('sysctl', '-n', forwarding).trim()
    segment.make()
    segment.ip('route', 'add', `${guestPrefix}/64`, 'via', hostAddress6)
    agent = await AgentProcess.create(tag, { lxc: { stop_timeout_seconds: 1 } })
    await agent.start()
    await agent.ready()
    await agent.kill('SIGTERM')
    await installBusyboxImage(join(agent.directory, 'pool'), 'debian-12')
    await start()
    await setRouting({ ipv4Pool: { items: pool.map(poolItem) }, ipv6Prefixes: { items: [prefixItem] } })
  })

  after(async () => {
    for (const child of children) child.kill('SIGKILL')
    close()
    await agent?.destroy()
    segment.remove()
    sh('sysctl', '-qw', `${forwarding}=${forwardedBefore}`)
  })

  async function start(): Promise<void> {
    await agent.start()
    await agent.ready()
    guests = agent.guests()
    operations = agent.operations()
    settings = agent.settings()
    routing = agent.routing()
    watched = new WatchedHost(agent.watch())
  }

  function close(): void {
    for (const client of [guests, operations, settings, routing, watched]) client?.close()
  }

  const poolItem = (address: string) => ({ address, interface: uplink, prefixLen: 24, gateway: '' })
  const prefixItem = { interface: uplink, address: '', prefix: guestPrefix, prefixLen: 64, gateway: '' }
  const setRouting = (change: Partial<Parameters<RoutingServiceClient['setRouting']>[0]>) =>
    call(routing.setRouting.bind(routing), {
      ipv4Pool: undefined,
      ipv6Prefixes: undefined,
      nat4Ports: undefined,
      ...change,
    })
  const readRouting = (): Promise<GetRoutingResponse> => call(routing.getRouting.bind(routing), {})

  /** @returns its uuid, or the code of the refusal */
  async function create(spec: Partial<GuestSpec>): Promise<string> {
    const id = nextId++
    const request = createRequest(id, `guest-${id}`, { assignNat: false, portMappings: [], ...spec })
    try {
      const { operation } = await createGuest(guests, request)
      await operationDone(operations, operation!.id)
      return request.uuid
    } catch (error) {
      return String((error as ServiceError).metadata?.get('berth-code')[0] ?? error)
    }
  }

  async function power(method: 'restartGuest' | 'deleteGuest', uuid: string): Promise<void> {
    const request = { operationId: crypto.randomUUID(), uuid, requestedBy: 'test', force: true }
    const client: Pick<GuestServiceClient, 'restartGuest'> = { restartGuest: guests[method].bind(guests) }
    const { operation } = await call(client.restartGuest, request)
    await operationDone(operations, operation!.id)
  }

  const guest = (uuid: string) => waitFor(() => watched.guests().find((item) => item.uuid === uuid))
  const shown = (...args: string[]): string => sh('ip', 'address', 'show', 'dev', uplink, ...args)

  async function pidOf(uuid: string): Promise<string> {
    const name = `x${tag}-${(await guest(uuid)).id}`
    return sh('lxc-info', '-P', join(agent.directory, 'state/lxc'), '-n', name, '-p', '-H').trim()
  }

  /** A tool of packets.py in the guest's network, or, without, in the segment. */
  const toolArgs = (pid: string | undefined, ...args: string[]): string[] => [
    pid === undefined ? `--net=/run/netns/${segment.name}` : `--net=/proc/${pid}/ns/net`,
    '/usr/bin/python3',
    packets,
    ...args,
  ]
  const ask = (pid: string | undefined, ...target: string[]): string =>
    sh('nsenter', ...toolArgs(pid, 'ask', ...target)).trim()

  const addressesOf = async (uuid: string): Promise<string[]> => {
    const { publicIpv4s, ipv6Addresses } = await guest(uuid)
    return [...publicIpv4s, ...ipv6Addresses]
  }

  /** From the segment. */
  const isReached = (address: string): boolean =>
    sh('nsenter', ...toolArgs(undefined, 'ask', 'tcp', address, '8081', '0', '0.3')).trim() !== ''

  async function serve(pid: string | undefined, name: string): Promise<void> {
    const child = spawn('nsenter', toolArgs(pid, 'serve', name, 'tcp:8081', 'udp:8081'), {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    children.push(child)
    await new Promise((resolve) => child.stdout.once('data', resolve))
  }

  /** Asks without end from the segment. @returns a line for each datagram, ` 1` at its end where it was answered */
  async function follow(address: string): Promise<string[]> {
    const args = toolArgs(undefined, 'stream', address, '0.01', '8081')
    const child = spawn('nsenter', args, { stdio: ['ignore', 'pipe', 'inherit'] })
    children.push(child)
    const lines: string[] = []
    const source = createInterface({ input: child.stdout })
    await once(source, 'line')
    source.on('line', (line) => lines.push(line))
    return lines
  }

  describe('a pool of 8', () => {
    let holders: string[]

    it('gives one each to exactly 8 of 40 that ask at once, and leaves nothing of the others', async () => {
      const results = await Promise.all(
        Array.from({ length: 40 }, () => create({ ipv4Count: 1, start: false })),
      )
      holders = results.filter((result) => result.includes('-'))
      expect(holders).to.have.length(8)
      expect(results.filter((result) => result === 'resource_exhausted')).to.have.length(32)
      await waitFor(() => watched.guests().length === 8)
      const given = watched.guests().flatMap(({ publicIpv4s }) => publicIpv4s)
      expect(given.sort()).to.deep.equal([...pool].sort())
      const { ipv4Assignments } = await readRouting()
      expect(ipv4Assignments.map(({ guestUuid }) => guestUuid).sort()).to.deep.equal([...holders].sort())
      for (const address of pool) expect(shown()).to.contain(`${address}/32`)
    })

    it('has an address back once its guest is deleted, and off the host', async () => {
      const [first = '', ...rest] = holders
      const { publicIpv4s } = await guest(first)
      expect(await create({ publicIpv4s })).to.equal('address_in_use')
      await power('deleteGuest', first)
      expect(shown()).to.not.contain(`${publicIpv4s[0]}/32`)
      const next = await create({ publicIpv4s, start: false })
      expect((await guest(next)).publicIpv4s).to.deep.equal(publicIpv4s)
      for (const uuid of [...rest, next]) await power('deleteGuest', uuid)
      expect(shown()).to.not.contain('/32')
    })

    for (const [name, spec, code] of [
      ['an address of no pool', { publicIpv4s: ['198.18.7.99'] }, 'invalid_field'],
      ['more than there are', { ipv4Count: 9 }, 'resource_exhausted'],
      ['IPv6 of no prefix', { ipv6Addresses: ['2001:db8:8::1'] }, 'invalid_field'],
    ] as const)
      it(`refuses: ${name}`, async () => {
        expect(await create({ ...spec, start: false } as Partial<GuestSpec>)).to.equal(code)
        expect(watched.guests()).to.deep.equal([])
      })
  })

  describe('a guest that runs', () => {
    let uuid: string

    before(async () => {
      await serve(undefined, 'outside')
      uuid = await create({ ipv4Count: 1, ipv6Count: 1 })
      await serve(await pidOf(uuid), 'inside')
    })

    it('is reached at its public address, and leaves with it', async () => {
      const [address = ''] = (await guest(uuid)).publicIpv4s
      expect(ask(undefined, 'tcp', address, '8081')).to.equal(`inside ${outside}`)
      expect(ask(await pidOf(uuid), 'tcp', outside, '8081')).to.equal(`outside ${address}`)
    })

    it('has its IPv6 address from the start', async () => {
      const { ipv6Addresses, ipv6 } = await guest(uuid)
      expect(ipv6Addresses).to.deep.equal([ipv6])
      expect(ipv6.startsWith('2001:db8:7:1:')).to.equal(true)
      expect(ask(undefined, 'tcp', ipv6, '8081')).to.equal(`inside ${outside6}`)
      expect(ask(await pidOf(uuid), 'tcp', outside6, '8081')).to.equal(`outside ${ipv6}`)
    })

    it('gets others while it runs, has them after a restart, and leaves with its first all the while', async () => {
      const { ipv6: first } = await guest(uuid)
      const leaves = async (): Promise<string> => ask(await pidOf(uuid), 'tcp', outside6, '8081')
      const request = { uuid, count: 3, addresses: [`${guestPrefix}99`], ifRevision: 0, operationId: '' }
      const { ipv6Addresses } = await call(settings.assignIpv6.bind(settings), request)
      expect(ipv6Addresses).to.have.length(5).and.include(`${guestPrefix}99`)
      expect(ipv6Addresses[0]).to.equal(first)
      for (const address of ipv6Addresses)
        expect(ask(undefined, 'tcp', address, '8081')).to.equal(`inside ${outside6}`)
      expect(await leaves()).to.equal(`outside ${first}`)
      await power('restartGuest', uuid)
      await serve(await pidOf(uuid), 'again')
      for (const address of ipv6Addresses)
        expect(ask(undefined, 'tcp', address, '8081')).to.equal(`again ${outside6}`)
      expect(await leaves()).to.equal(`outside ${first}`)
    })

    it('has its addresses repaired within 5 s, also by an agent that was killed', async () => {
      const { publicIpv4s, ipv6 } = await guest(uuid)
      for (const kill of [false, true]) {
        if (kill) {
          await agent.kill('SIGKILL')
          close()
        }
        sh('ip', 'address', 'delete', `${publicIpv4s[0]}/32`, 'dev', uplink)
        sh('ip', '-6', 'route', 'delete', `${ipv6}/128`, 'dev', `btest-${tag}`)
        if (kill) await start()
        const isBack = (): boolean =>
          shown().includes(`${publicIpv4s[0]}/32`) && ask(undefined, 'tcp', ipv6, '8081') !== ''
        await waitFor(isBack, { timeoutMs: 5000, what: 'the addresses' })
      }
    })

    describe('whose bridge somebody changes', () => {
      let closed: string
      /** Of the guest, then of the one that is closed. */
      let addresses: [string[], string[]]
      let streams: string[][]

      before(async () => {
        closed = await create({ ipv4Count: 1, ipv6Count: 1 })
        await serve(await pidOf(closed), 'closed')
        addresses = [await addressesOf(uuid), await addressesOf(closed)]
        await waitFor(() => addresses[1].every(isReached), { what: 'the guest to be closed' })
        const firewall = { enabled: true, defaultAction: 'DROP', rules: [] }
        await call(settings.setFirewall.bind(settings), { uuid: closed, firewall, ifRevision: 0 })
        streams = await Promise.all(addresses[1].map(follow))
      })
      after(() => power('deleteGuest', closed))

      for (const [what, change] of [
        ['it is deleted', ['delete', `btest-${tag}`]],
        ['it is down', ['set', `btest-${tag}`, 'down']],
        ['it has no guests any more', undefined],
      ] as const)
        it(`is reached within 5 s, and one with a closed firewall never: ${what}`, async () => {
          if (change) sh('ip', 'link', ...change)
          else
            for (const one of [uuid, closed])
              sh('ip', 'link', 'set', `x${tag}${(await guest(one)).id}`, 'nomaster')
          await waitFor(() => addresses[0].every(isReached), { timeoutMs: 5000, what: 'the addresses' })
          expect(ask(await pidOf(uuid), 'tcp', outside, '8081')).to.contain('outside ')
          expect(ask(await pidOf(uuid), 'tcp', outside6, '8081')).to.contain('outside ')
          for (const lines of streams) {
            const count = lines.length
            await waitFor(() => lines.length > count + 100, { what: 'what was asked meanwhile' })
            expect(lines.filter((line) => line.endsWith(' 1'))).to.deep.equal([])
          }
          expect(addresses[1].some(isReached)).to.equal(false)
        })
    })

    it('keeps the pool from losing what it has', async () => {
      const refusal = await setRouting({ ipv4Pool: { items: [] } }).catch((error: ServiceError) => error)
      expect((refusal as ServiceError).metadata.get('berth-code')).to.deep.equal(['address_in_use'])
      expect((await readRouting()).ipv4Pool).to.have.length(8)
    })
  })

  describe('a guest whose later addresses are nearer to who asks it (RFC 6724)', () => {
    const [farPrefix, first] = ['2001:db8:6::', '2001:db8:6::5']
    const nearer = [`${guestPrefix}5`, `${guestPrefix}6`]
    let uuid: string
    let given: string

    before(async () => {
      segment.ip('route', 'add', `${farPrefix}/64`, 'via', hostAddress6)
      await setRouting({ ipv6Prefixes: { items: [prefixItem, { ...prefixItem, prefix: farPrefix }] } })
      const mapping = wireMapping({ protocol: 'udp', hostIp: hostAddress6, containerPort: 8081 })
      uuid = await create({ assignNat: true, portMappings: [mapping], ipv6Addresses: [first] })
    })
    after(() => power('deleteGuest', uuid))

    async function inside(...args: string[]): Promise<string> {
      return sh('nsenter', `--net=/proc/${await pidOf(uuid)}/ns/net`, 'ip', '-6', '-oneline', ...args)
    }

    /** Its addresses in the kernel's order, with flags and lifetimes, and its way out; no index of an interface. */
    async function readNetwork(): Promise<string> {
      const addresses = await inside('address', 'show', 'dev', 'eth0', 'scope', 'global')
      return addresses.replaceAll(/^\d+: /gm, '') + (await inside('route', 'show', 'default'))
    }

    /** By a server that leaves the choice of its address to the kernel. */
    async function expectAnswers(name: string): Promise<void> {
      await serve(await pidOf(uuid), name)
      const { hostPort } = (await guest(uuid)).portMappings[0]!
      expect(ask(undefined, 'udp', hostAddress6, `${hostPort}`)).to.equal(`${name} ${outside6}`)
      for (const address of [first, ...nearer])
        expect(ask(undefined, 'tcp', address, '8081')).to.equal(`${name} ${outside6}`)
      expect(await inside('route', 'get', outside6)).to.contain(` src ${first} `)
    }

    it('leaves with its first, and answers a mapping with it, once it is given the others', async () => {
      const request = { uuid, count: 0, addresses: nearer, ifRevision: 0, operationId: '' }
      await call(settings.assignIpv6.bind(settings), request)
      given = await readNetwork()
      expect(given.match(/deprecated/g)).to.have.length(2)
      await expectAnswers('given')
    })

    it('has the same inside after a restart', async () => {
      await power('restartGuest', uuid)
      expect(await readNetwork()).to.equal(given)
      await expectAnswers('restarted')
    })

    it('has the same inside after it rebooted by itself', async () => {
      const before = await pidOf(uuid)
      process.kill(Number(before), 'SIGTERM') // BusyBox's init reboots
      await waitFor(async () => ![before, ''].includes(await pidOf(uuid)), { timeoutMs: 15_000 })
      expect(await readNetwork()).to.equal(given)
      await expectAnswers('rebooted')
    })
  })
})
