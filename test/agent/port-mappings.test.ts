import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { createServer, type Server } from 'node:net'
import { call, changeSetting, wireMapping } from '../support/host/agent-calls.js'
import { agentConfig, AgentProcess } from '../support/host/agent-process.js'
import { askPeer, codeOf, SettingsHost } from '../support/host/settings-host.js'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'

const tag = 'sp'

/** Uses a separate agent with BusyBox guests. */
describe('port mappings of a guest', function () {
  let host: SettingsHost
  /** UUID of a running guest. The other guest, `stopped`, never ran. */
  let running: string
  let stopped: string
  let gateway: string

  before(async () => {
    const { network } = agentConfig('', tag) as { network: Record<string, object> }
    const nat_ports = { ...network['nat_ports'], per_guest: 1200 }
    const agent = await AgentProcess.create(tag, { network: { ...network, nat_ports } })
    host = await SettingsHost.open(agent)
    running = await host.create(1, 'runs')
    stopped = await host.create(2, 'stopped', { start: false })
    const { subnet } = host.agent.config['network'] as { subnet: string }
    gateway = subnet.replace(/0\/\d+$/, '1')
  })
  after(() => host?.destroy())
  afterEach(() => Promise.all([running, stopped].map((uuid) => host.removeMappings(uuid))))

  it('can be added, changed and removed, and watchers of the host see the same mappings as the caller', async () => {
    const one = await host.addMapping(stopped, { containerPort: 80, description: 'web' })
    const [web] = one.portMappings
    expect(web!.hostPort).to.be.within(20000, 29999)
    const two = await host.addMapping(stopped, { containerPort: 53, hostPort: 25053, protocol: 'udp' })
    expect(two.portMappings).to.deep.equal([web, wireMapping({ containerPort: 53, hostPort: 25053, protocol: 'udp' })])
    expect((await host.seen(stopped, two.revision)).portMappings).to.deep.equal(two.portMappings)
    const changed = await host.updateMapping(stopped, 0, { containerPort: 8080 })
    expect(changed.portMappings[0]).to.deep.equal({ ...web, containerPort: 8080 })
    const left = await host.removeMapping(stopped, 0)
    expect(left.portMappings).to.deep.equal(two.portMappings.slice(1))
    expect((await host.seen(stopped, left.revision)).portMappings).to.deep.equal(left.portMappings)
  })

  it('are added only once if a request is repeated with the same operation id', async () => {
    const change = { $case: 'addPortMapping', value: wireMapping({ containerPort: 81 }) } as const
    const target = { uuid: stopped, operationId: randomUUID() }
    const first = await changeSetting(host.client, change, target)
    const again = await changeSetting(host.client, change, target)
    expect(again).to.deep.equal(first)
    expect(first.portMappings).to.have.length(1)
  })

  it('can be port ranges, and no other mapping of the same protocol can use their host ports', async () => {
    const range = { containerPort: 21000, containerPortEnd: 21999, hostPort: 21000, hostPortEnd: 21999 }
    const { portMappings } = await host.addMapping(running, range)
    expect(portMappings).to.deep.equal([wireMapping(range)])
    expect(await codeOf(host.addMapping(stopped, { containerPort: 1, hostPort: 21500 }))).to.equal('port_conflict')
    expect(await codeOf(host.addMapping(stopped, { ...range, protocol: 'udp' }))).to.equal('accepted')
  })

  it('are limited to a total number of TCP and UDP ports per guest', async () => {
    const range = { containerPort: 20000, containerPortEnd: 20999 }
    const { portMappings: mappings } = await host.addMapping(running, range)
    expect(await codeOf(host.addMapping(running, { ...range, protocol: 'udp' }))).to.equal('resource_exhausted')
    expect(await codeOf(host.addMapping(stopped, { ...range, protocol: 'udp' }))).to.equal('accepted')
    const longer = { containerPortEnd: 21200, hostPort: 20000, hostPortEnd: 21200 }
    expect(await codeOf(host.updateMapping(running, 0, longer))).to.equal('resource_exhausted')
    expect(host.guest(running).portMappings).to.deep.equal(mappings)
    const all = { containerPortEnd: 21199, hostPort: 20000, hostPortEnd: 21199 }
    expect(await codeOf(host.updateMapping(running, 0, all))).to.equal('accepted')
    expect(await codeOf(host.addMapping(running, { containerPort: 22 }))).to.equal('resource_exhausted')
  })

  it('are rejected without a change if a port is in use, out of range or malformed', async () => {
    const { portMappings: mappings } = await host.addMapping(running, { containerPort: 22, hostPort: 25022 })
    const server = await listen(25555)
    try {
      for (const [fields, code] of [
        [{ containerPort: 22, hostPort: 25022 }, 'port_conflict'],
        [{ containerPort: 22, hostPort: 25555 }, 'port_conflict'],
        [{ containerPort: 22, hostPort: 30000 }, 'port_conflict'],
        [{ containerPort: 22, hostPort: 70000 }, 'invalid_field'],
        [{ containerPort: 22, protocol: 'icmp' }, 'invalid_field'],
        [{ containerPort: 22, hostIp: '198.51.100.77' }, 'invalid_field'],
        [{ containerPort: 22, hostIp: '::1; flush ruleset' }, 'invalid_field'],
        [{ containerPort: 22, description: 'two\nlines' }, 'invalid_field'],
      ] as const)
        expect(await codeOf(host.addMapping(stopped, fields)), JSON.stringify(fields)).to.equal(code)
    } finally {
      server.close()
    }
    expect(await codeOf(host.updateMapping(running, 1, { hostPort: 25023 }))).to.equal('not_found')
    expect(await codeOf(host.addMapping(randomUUID(), { containerPort: 22 }))).to.equal('not_found')
    expect(host.guest(running).portMappings).to.deep.equal(mappings)
    expect(host.guest(stopped).portMappings).to.deep.equal([])
  })

  it('keep their ports even if a host program later listens on the same ports', async () => {
    await host.addMapping(stopped, { containerPort: 22, hostPort: 25556 })
    const server = await listen(25556)
    try {
      const { portMappings: mappings } = await host.updateMapping(stopped, 0, { description: 'mine' })
      expect(mappings[0]).to.include({ hostPort: 25556, description: 'mine' })
      expect(await codeOf(host.updateMapping(stopped, 0, { protocol: 'udp' }))).to.equal('accepted')
      expect(await codeOf(host.updateMapping(stopped, 0, { protocol: 'tcp' }))).to.equal('port_conflict')
    } finally {
      server.close()
    }
  })

  it('are removed only once by concurrent requests, and not by a request with an outdated revision', async () => {
    const ports = [25001, 25002, 25003, 25004]
    let revision = 0
    for (const hostPort of ports) ({ revision } = await host.addMapping(running, { containerPort: 1, hostPort }))
    await Promise.all([host.removeMapping(running, 0), host.removeMapping(running, 0)])
    revision = await waitFor(() =>
      host.guest(running).portMappings.length === 2 ? host.guest(running).revision : undefined,
    )
    expect(host.guest(running).portMappings.map((m) => m.hostPort)).to.deep.equal([25003, 25004])
    const codes = await Promise.all([1, 2].map(() => codeOf(host.removeMapping(running, 0, revision))))
    expect(codes.toSorted()).to.deep.equal(['accepted', 'precondition_failed'])
    expect((await host.removeMapping(running, 0)).portMappings).to.deep.equal([])
  })

  it('are added for only one of twenty concurrent requests for the same port', async () => {
    const wanted = Array.from({ length: 20 }, (_, n) =>
      codeOf(host.addMapping(n % 2 ? running : stopped, { containerPort: 1, hostPort: 26000 })),
    )
    const codes = await Promise.all(wanted)
    expect(codes.filter((code) => code === 'accepted')).to.have.lengthOf(1)
    expect(codes.filter((code) => code === 'port_conflict')).to.have.lengthOf(19)
  })

  it('can be added at host ports that a search for free ports has returned', async () => {
    const find = (hostIp: string, count: number) =>
      call(host.client.findFreePorts.bind(host.client), { protocol: 'tcp', hostIp, count })
    const { ports } = await find('', 5)
    expect(new Set(ports).size).to.equal(5)
    expect(await codeOf(find('203.0.113.99', 1))).to.equal('invalid_field')
    expect(await codeOf(find('', 0))).to.equal('invalid_field')
  })

  it('forward connections as soon as their creation is confirmed, and until their removal is confirmed', async () => {
    const echo = host.answerInside(`x${tag}-1`, 8080)
    try {
      const { portMappings: mappings } = await host.addMapping(running, { containerPort: 8080 })
      const port = mappings[0]!.hostPort
      await waitFor(async () => (await askPeer(gateway, port)) === 'hello', { what: 'an answer' })
      await host.updateMapping(running, 0, { containerPort: 8081 })
      expect(await askPeer(gateway, port)).not.to.equal('hello')
      await host.updateMapping(running, 0, { containerPort: 8080 })
      expect(await askPeer(gateway, port)).to.equal('hello')
      await host.removeMapping(running, 0)
      expect(await askPeer(gateway, port)).not.to.equal('hello')
    } finally {
      echo.kill('SIGKILL')
    }
  })

  it('forward connections again if another program deleted the guest’s interface', async () => {
    const echo = host.answerInside(`x${tag}-1`, 8080)
    const answers = (port: number) => async (): Promise<boolean> => (await askPeer(gateway, port)) === 'hello'
    try {
      const { portMappings: mappings } = await host.addMapping(running, { containerPort: 8080 })
      const { hostPort } = mappings[0]!
      await waitFor(answers(hostPort), { what: 'an answer' })
      sh('ip', 'link', 'delete', `x${tag}1`)
      expect(await answers(hostPort)()).to.equal(false)
      await waitFor(answers(hostPort), { what: 'an answer through another interface' })
      await host.removeMapping(running, 0)
    } finally {
      echo.kill('SIGKILL')
    }
  })
})

function listen(port: number): Promise<Server> {
  return new Promise((done, fail) => {
    const server = createServer().once('error', fail)
    server.listen(port, '127.0.0.1', () => done(server))
  })
}
