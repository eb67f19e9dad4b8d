import { expect } from 'chai'
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import type { ServiceError } from '@grpc/grpc-js'
import { GuestStatus, type Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import {
  FirewallRule,
  type Firewall,
  type GuestSettingsServiceClient,
  type SetLimitsRequest,
} from '../../proto/gen/berth/agent/v1/network.js'
import {
  call,
  createGuest,
  createRequest,
  operationDone,
  operationEnded,
  wireMapping,
} from '../support/agent-calls.js'
import { AgentProcess } from '../support/agent-process.js'
import { installBusyboxImage } from '../support/busybox-image.js'
import { waitFor } from '../support/wait.js'
import { WatchedHost } from '../support/watched-host.js'

const tag = 'st'
const day = 86_400_000

/** Against an agent of its own, with guests of BusyBox. */
describe('settings of a guest', function () {
  this.timeout(120_000)
  let agent: AgentProcess
  let client: GuestSettingsServiceClient
  let watched: WatchedHost
  /** One that runs, one that never did. */
  let running: string
  let stopped: string
  let gateway: string

  before(async () => {
    agent = await AgentProcess.create(tag, { lxc: { stop_timeout_seconds: 1 } })
    await agent.start()
    await agent.ready()
    await agent.kill('SIGTERM')
    await installBusyboxImage(join(agent.directory, 'pool'), 'debian-12')
    await agent.start()
    await agent.ready()
    open()
    running = await create(1, 'runs', true)
    stopped = await create(2, 'stopped', false)
    const { subnet } = agent.config['network'] as { subnet: string }
    gateway = subnet.replace(/0\/\d+$/, '1')
  })

  after(async () => {
    close()
    await agent?.destroy()
  })

  const open = (): void => {
    client = agent.settings()
    watched = new WatchedHost(agent.watch())
  }
  const close = (): void => {
    client?.close()
    watched?.close()
  }

  async function create(id: number, name: string, start: boolean): Promise<string> {
    const guests = agent.guests()
    const operations = agent.operations()
    const request = createRequest(id, name, { start, assignNat: false, portMappings: [] })
    const { operation } = await createGuest(guests, request)
    await operationDone(operations, operation!.id)
    guests.close()
    operations.close()
    return request.uuid
  }

  const guest = (uuid: string): Guest => watched.guests().find((one) => one.uuid === uuid)!
  const seen = (uuid: string, revision: number): Promise<Guest> =>
    waitFor(() => {
      const found = watched.guests().find((one) => one.uuid === uuid)
      return found && found.revision >= revision ? found : undefined
    })

  const codeOf = (work: Promise<unknown>): Promise<string> =>
    work.then(
      () => 'accepted',
      (error: ServiceError) => String(error.metadata.get('berth-code')[0]),
    )

  const power = async (action: 'startGuest' | 'stopGuest', uuid: string): Promise<string> => {
    const [guests, operations] = [agent.guests(), agent.operations()]
    const order = { operationId: randomUUID(), uuid, requestedBy: 'test', force: true }
    try {
      const { operation } = await call(guests[action].bind(guests), order)
      const ended = await operationEnded(operations, operation!.id)
      return ended.errorCode || 'done'
    } catch (error) {
      return String((error as ServiceError).metadata.get('berth-code')[0])
    } finally {
      guests.close()
      operations.close()
    }
  }

  describe('port mappings', () => {
    const add = (uuid: string, fields: Parameters<typeof wireMapping>[0], ifRevision = 0) =>
      call(client.addPortMapping.bind(client), {
        uuid,
        mapping: wireMapping(fields),
        ifRevision,
        operationId: '',
      })
    const update = (uuid: string, index: number, change: object, ifRevision = 0) =>
      call(client.updatePortMapping.bind(client), { uuid, index, change: { ...none, ...change }, ifRevision })
    const remove = (uuid: string, index: number, ifRevision = 0) =>
      call(client.removePortMapping.bind(client), { uuid, index, ifRevision })
    const none = {
      ...{ containerPort: undefined, hostPort: undefined, protocol: undefined, description: undefined },
      ...{ hostIp: undefined, containerPortEnd: undefined, hostPortEnd: undefined },
    }
    const removeAll = async (uuid: string): Promise<void> => {
      while (guest(uuid).portMappings.length > 0) await seen(uuid, (await remove(uuid, 0)).revision)
    }
    afterEach(() => Promise.all([removeAll(running), removeAll(stopped)]))

    it('are added, changed and removed, and watchers see what was answered', async () => {
      const one = await add(stopped, { containerPort: 80, description: 'web' })
      const [web] = one.mappings
      expect(web!.hostPort).to.be.within(30000, 39999)
      const two = await add(stopped, { containerPort: 53, hostPort: 35053, protocol: 'udp' })
      expect(two.mappings).to.deep.equal([
        web,
        wireMapping({ containerPort: 53, hostPort: 35053, protocol: 'udp' }),
      ])
      expect((await seen(stopped, two.revision)).portMappings).to.deep.equal(two.mappings)
      const changed = await update(stopped, 0, { containerPort: 8080 })
      expect(changed.mappings[0]).to.deep.equal({ ...web, containerPort: 8080 })
      const left = await remove(stopped, 0)
      expect(left.mappings).to.deep.equal(two.mappings.slice(1))
      expect((await seen(stopped, left.revision)).portMappings).to.deep.equal(left.mappings)
    })

    it('of one operation are added once', async () => {
      const order = {
        uuid: stopped,
        mapping: wireMapping({ containerPort: 81 }),
        ifRevision: 0,
        operationId: randomUUID(),
      }
      const first = await call(client.addPortMapping.bind(client), order)
      const again = await call(client.addPortMapping.bind(client), order)
      expect(again).to.deep.equal(first)
      expect(first.mappings).to.have.length(1)
    })

    it('keep ranges as one', async () => {
      const range = { containerPort: 34000, containerPortEnd: 34999, hostPort: 34000, hostPortEnd: 34999 }
      const { mappings } = await add(running, range)
      expect(mappings).to.deep.equal([wireMapping(range)])
      expect(await codeOf(add(stopped, { containerPort: 1, hostPort: 34500 }))).to.equal('port_conflict')
      expect(await codeOf(add(stopped, { ...range, protocol: 'udp' }))).to.equal('accepted')
    })

    it('refuse what is taken, out of range or malformed, and change nothing then', async () => {
      const { mappings } = await add(running, { containerPort: 22, hostPort: 35022 })
      const server = await listen(35555)
      try {
        for (const [fields, code] of [
          [{ containerPort: 22, hostPort: 35022 }, 'port_conflict'],
          [{ containerPort: 22, hostPort: 35555 }, 'port_conflict'],
          [{ containerPort: 22, hostPort: 29999 }, 'port_conflict'],
          [{ containerPort: 22, hostPort: 70000 }, 'invalid_field'],
          [{ containerPort: 22, protocol: 'icmp' }, 'invalid_field'],
          [{ containerPort: 22, hostIp: '198.51.100.77' }, 'invalid_field'],
          [{ containerPort: 22, hostIp: '::1; flush ruleset' }, 'invalid_field'],
          [{ containerPort: 22, description: 'two\nlines' }, 'invalid_field'],
        ] as const)
          expect(await codeOf(add(stopped, fields)), JSON.stringify(fields)).to.equal(code)
      } finally {
        server.close()
      }
      expect(await codeOf(update(running, 1, { hostPort: 35023 }))).to.equal('not_found')
      expect(await codeOf(add(randomUUID(), { containerPort: 22 }))).to.equal('not_found')
      expect(guest(running).portMappings).to.deep.equal(mappings)
      expect(guest(stopped).portMappings).to.deep.equal([])
    })

    it('keep their ports though a program of the host waits there since', async () => {
      await add(stopped, { containerPort: 22, hostPort: 35556 })
      const server = await listen(35556)
      try {
        const { mappings } = await update(stopped, 0, { description: 'mine' })
        expect(mappings[0]).to.include({ hostPort: 35556, description: 'mine' })
        expect(await codeOf(update(stopped, 0, { protocol: 'udp' }))).to.equal('accepted')
        expect(await codeOf(update(stopped, 0, { protocol: 'tcp' }))).to.equal('port_conflict')
      } finally {
        server.close()
      }
    })

    it('lose none where two remove the first at once, and one of two that expect the same revision', async () => {
      const ports = [35001, 35002, 35003, 35004]
      let revision = 0
      for (const hostPort of ports) ({ revision } = await add(running, { containerPort: 1, hostPort }))
      await Promise.all([remove(running, 0), remove(running, 0)])
      revision = await waitFor(() =>
        guest(running).portMappings.length === 2 ? guest(running).revision : undefined,
      )
      expect(guest(running).portMappings.map((m) => m.hostPort)).to.deep.equal([35003, 35004])
      const codes = await Promise.all([1, 2].map(() => codeOf(remove(running, 0, revision))))
      expect(codes.toSorted()).to.deep.equal(['accepted', 'precondition_failed'])
      expect((await remove(running, 0)).mappings).to.deep.equal([])
    })

    it('give one port to one of twenty that want it', async () => {
      const wanted = Array.from({ length: 20 }, (_, n) =>
        codeOf(add(n % 2 ? running : stopped, { containerPort: 1, hostPort: 36000 })),
      )
      const codes = await Promise.all(wanted)
      expect(codes.filter((code) => code === 'accepted')).to.have.lengthOf(1)
      expect(codes.filter((code) => code === 'port_conflict')).to.have.lengthOf(19)
    })

    it('finds free ports', async () => {
      const find = (hostIp: string, count: number) =>
        call(client.findFreePorts.bind(client), { protocol: 'tcp', hostIp, count })
      const { ports } = await find('', 5)
      expect(new Set(ports).size).to.equal(5)
      expect(await codeOf(find('203.0.113.99', 1))).to.equal('invalid_field')
      expect(await codeOf(find('', 0))).to.equal('invalid_field')
    })

    it('lead into the guest from when they are answered to when they are removed', async () => {
      const echo = serveInside(8080)
      try {
        const { mappings } = await add(running, { containerPort: 8080 })
        const port = mappings[0]!.hostPort
        await waitFor(async () => (await ask(gateway, port)) === 'hello', { what: 'an answer' })
        await update(running, 0, { containerPort: 8081 })
        expect(await ask(gateway, port)).not.to.equal('hello')
        await update(running, 0, { containerPort: 8080 })
        expect(await ask(gateway, port)).to.equal('hello')
        await remove(running, 0)
        expect(await ask(gateway, port)).not.to.equal('hello')
      } finally {
        echo.kill('SIGKILL')
      }
    })
  })

  describe('firewall', () => {
    const get = async (uuid: string): Promise<Firewall> =>
      (await call(client.getFirewall.bind(client), { uuid })).firewall!
    const set = async (uuid: string, firewall: Firewall, ifRevision = 0): Promise<Firewall> =>
      (await call(client.setFirewall.bind(client), { uuid, firewall, ifRevision })).firewall!
    const rule = (fields: Partial<FirewallRule>): FirewallRule =>
      FirewallRule.create({ direction: 'in', protocol: 'tcp', action: 'ACCEPT', network: 'all', ...fields })
    const off = { enabled: false, defaultAction: 'ACCEPT', rules: [] }
    afterEach(() => set(running, off))

    it('is off, then kept as stored, with ids that stay', async () => {
      expect(await get(stopped)).to.deep.equal(off)
      const wanted = {
        enabled: true,
        defaultAction: 'DROP',
        rules: [
          rule({ port: '443, 80', sourceIp: '198.51.100.9/24' }),
          rule({ id: 'made-up', protocol: 'icmp' }),
        ],
      }
      const stored = await set(stopped, wanted)
      expect(stored.rules[0]).to.include({ port: '80,443', sourceIp: '198.51.100.0/24' })
      expect(stored.rules.map(({ id }) => id))
        .not.to.include('made-up')
        .and.not.to.include('')
      expect(await get(stopped)).to.deep.equal(stored)
      const again = await set(stopped, { ...stored, rules: [...stored.rules, rule({ port: '22' })] })
      expect(again.rules.slice(0, 2)).to.deep.equal(stored.rules)
    })

    it('stays as it was where the new rules are wrong or someone else was faster', async () => {
      const stored = await set(stopped, {
        enabled: true,
        defaultAction: 'DROP',
        rules: [rule({ port: '22' })],
      })
      const wrong = { ...stored, rules: [rule({ port: '22; flush ruleset' })] }
      expect(await codeOf(set(stopped, wrong))).to.equal('invalid_field')
      expect(await codeOf(set(stopped, off, 1))).to.equal('precondition_failed')
      expect(await get(stopped)).to.deep.equal(stored)
    })

    it('is in force when answered', async () => {
      const echo = serveInside(8082)
      const address = guest(running).ipv4
      try {
        await waitFor(async () => (await ask(address, 8082)) === 'hello', { what: 'an answer' })
        await set(running, { enabled: true, defaultAction: 'DROP', rules: [rule({ port: '22' })] })
        expect(await ask(address, 8082)).not.to.equal('hello')
        await set(running, { enabled: true, defaultAction: 'DROP', rules: [rule({ port: '8082' })] })
        expect(await ask(address, 8082)).to.equal('hello')
      } finally {
        echo.kill('SIGKILL')
      }
    })
  })

  describe('limits', () => {
    const set = (uuid: string, fields: Partial<SetLimitsRequest>) =>
      call(client.setLimits.bind(client), { ...unsent, uuid, ifRevision: 0, ...fields })
    const unsent = {
      ...{ vcpuMilli: undefined, ramMb: undefined, networkDownMbps: undefined, networkUpMbps: undefined },
      ...{ ioReadMbps: undefined, ioWriteMbps: undefined },
    }

    it('hold at once in a guest that runs, and what is not sent stays', async () => {
      const before = guest(running).limits!
      const { limits, revision } = await set(running, { ramMb: 128, networkDownMbps: 50 })
      expect(limits).to.deep.equal({ ...before, ramMb: 128, networkDownMbps: 50 })
      expect((await seen(running, revision)).limits).to.deep.equal(limits)
      expect(memoryLimit(1)).to.equal(128 * 1024 ** 2)
      expect(rateMbps(1)).to.be.within(45, 55)
      await set(running, { networkDownMbps: 0 })
      expect(rateMbps(1)).to.equal(undefined)
    })

    it('are refused beyond the host and its rules, and change nothing then', async () => {
      const before = guest(running).limits!
      expect(await codeOf(set(running, { vcpuMilli: 250_000 }))).to.equal('resource_exhausted')
      expect(await codeOf(set(running, { ramMb: 4_000_000 }))).to.equal('resource_exhausted')
      expect(await codeOf(set(running, { networkUpMbps: 1e9 }))).to.equal('invalid_field')
      expect(guest(running).limits).to.deep.equal(before)
    })

    it('of a stopped guest hold from its start on', async () => {
      await set(stopped, { ramMb: 96, networkDownMbps: 20 })
      expect(await power('startGuest', stopped)).to.equal('done')
      expect(memoryLimit(2)).to.equal(96 * 1024 ** 2)
      expect(rateMbps(2)).to.be.within(18, 22)
      expect(await power('stopGuest', stopped)).to.equal('done')
    })

    const memoryLimit = (id: number): number => {
      const state = readFileSync('/proc/mounts', 'utf8')
      const v1 = /^\S+ (\S+) cgroup \S*\bmemory\b/m.exec(state)?.[1]
      const group = `${v1 ?? '/sys/fs/cgroup'}/lxc.payload.x${tag}-${id}`
      return Number(readFileSync(`${group}/${v1 ? 'memory.limit_in_bytes' : 'memory.max'}`, 'utf8'))
    }
    const rateMbps = (id: number): number | undefined => {
      const classes = execFileSync('tc', ['class', 'show', 'dev', `x${tag}${id}`]).toString()
      const [, rate, unit] = /^class htb .* rate ([\d.]+)([KM])bit/m.exec(classes) ?? []
      return rate === undefined ? undefined : Number(rate) / (unit === 'K' ? 1000 : 1)
    }
  })

  describe('quota and expiry', () => {
    const setExpiry = (uuid: string, expiresAtMs: number) =>
      call(client.setExpiry.bind(client), { uuid, expiresAtMs, ifRevision: 0 })
    const unsent = {
      ...{ mode: undefined, monthlyGb: undefined, inGb: undefined, outGb: undefined },
      ...{ action: undefined, throttleMbps: undefined, resetDay: undefined },
    }

    it('block, stop and free a guest', async () => {
      await setExpiry(running, Date.now() - 1000)
      const blocked = await waitFor(() => {
        const { status, policyBlocked } = guest(running)
        return policyBlocked && status === GuestStatus.GUEST_STATUS_STOPPED ? guest(running) : undefined
      })
      expect(blocked.policyReason).to.equal('expired')
      expect(await power('startGuest', running)).to.equal('policy_blocked')
      const { revision } = await setExpiry(running, Date.now() + day)
      expect(await seen(running, revision)).to.deep.include({ policyBlocked: false, policyReason: '' })
      expect(await power('startGuest', running)).to.equal('done')
      await setExpiry(running, 0)
      expect(await codeOf(setExpiry(running, -5))).to.equal('invalid_field')
    })

    it('keep what is not sent of a quota', async () => {
      const set = (fields: object) =>
        call(client.setTrafficLimit.bind(client), { ...unsent, uuid: stopped, ifRevision: 0, ...fields })
      await set({ monthlyGb: 100, resetDay: 5 })
      const { traffic } = await set({ monthlyGb: 50 })
      expect(traffic).to.include({ monthlyGb: 50, resetDay: 5 })
      expect(await codeOf(set({ resetDay: 31 }))).to.equal('invalid_field')
      const read = await call(client.getTraffic.bind(client), { uuid: stopped })
      expect(read.limit).to.deep.equal(traffic)
      expect(read.periodStart).to.match(/^\d{4}-\d\d-05$/)
    })
  })

  describe('of a killed agent', () => {
    it('are there again', async () => {
      const add = {
        uuid: running,
        mapping: wireMapping({ containerPort: 22, hostPort: 37022 }),
        ifRevision: 0,
        operationId: '',
      }
      await call(client.addPortMapping.bind(client), add)
      const firewall = { enabled: true, defaultAction: 'DROP', rules: [] }
      const { revision } = await call(client.setFirewall.bind(client), {
        uuid: running,
        firewall,
        ifRevision: 0,
      })
      const before = await seen(running, revision)
      close()
      await agent.kill()
      await agent.start()
      await agent.ready()
      open()
      const after = await seen(running, 1)
      expect({ ...after, revision: 0 }).to.deep.equal({ ...before, revision: 0 })
      expect((await call(client.getFirewall.bind(client), { uuid: running })).firewall).to.deep.equal(
        firewall,
      )
    })
  })

  /** Answers every connection with `hello`, in the guest that runs. */
  function serveInside(port: number): ChildProcess {
    return spawn('lxc-attach', [
      ...['-P', join(agent.directory, 'state', 'lxc'), '-n', `x${tag}-1`, '--clear-env', '--'],
      ...['busybox', 'timeout', '60', 'nc', '-ll', '-p', `${port}`, '-e', 'printf', 'hello'],
    ])
  }
})

function listen(port: number): Promise<Server> {
  return new Promise((done, fail) => {
    const server = createServer().once('error', fail)
    server.listen(port, '127.0.0.1', () => done(server))
  })
}

/** What the peer sends until it closes; empty where none answers. */
function ask(host: string, port: number): Promise<string> {
  return new Promise((done) => {
    let text = ''
    const socket = connect({ host, port, timeout: 500 })
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
    socket.on('timeout', () => socket.destroy())
    socket.on('error', () => socket.destroy())
    socket.on('close', () => done(text))
  })
}
