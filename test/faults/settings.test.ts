import { expect } from 'chai'
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Firewall } from '../../proto/gen/berth/agent/v1/network.js'
import { call } from '../support/host/agent-calls.js'
import { createFaultyAgent, setFaults, type Fault } from '../support/host/faulty-agent.js'
import { readGuestLimits, readInits, readInventory, type Instance } from '../support/host/inventory.js'
import { readExpected } from '../support/host/journal-inventory.js'
import { codeOf, SettingsHost } from '../support/host/settings-host.js'
import { waitFor } from '../support/wait.js'
import { sh } from '../support/sh.js'

const tag = 'sf'
const prefix = '2001:db8:5f:1::'
/** Interface of the host for the IPv6 prefix of the guests. No packet leaves through it. */
const uplink = 'btestsf0'
const forwarding = 'net.ipv6.conf.all.forwarding'
const mib = 1024 ** 2

/** Faults after a change was written to the agent's journal: the agent is killed, or the host rejects the change. */
describe('changes of guest settings', function () {
  let host: SettingsHost
  let instance: Instance
  let uuid: string
  let forwardedBefore = '0'
  /** Arguments of lxc-attach that come before the command. */
  const attach: string[] = []

  before(async () => {
    forwardedBefore = sh('sysctl', '-n', forwarding).trim()
    host = await SettingsHost.open(await createFaultyAgent(tag, { lxc: { swap_ratio: 0 } }))
    const { directory } = host.agent
    const [stateDir, pool] = [join(directory, 'state'), join(directory, 'pool')]
    instance = { stateDir, pool, table: `btest_${tag}`, interfacePrefix: `x${tag}` }
    removeUplink()
    sh('ip', 'link', 'add', uplink, 'type', 'veth', 'peer', 'name', `${uplink}p`)
    attach.push('-P', join(stateDir, 'lxc'), '-n', `x${tag}-1`, '--clear-env', '--')
    await setPrefix()
    uuid = await host.create(1, 'one')
  })
  after(async () => {
    await host?.destroy()
    removeUplink()
    sh('sysctl', '-qw', `${forwarding}=${forwardedBefore}`)
  })
  afterEach(() => setFaults(host.agent, {}))

  /** Sets faults of the host's methods. A key is `METHOD` for calls about guest 1, or `METHOD ID` for another guest. */
  const faults = (given: Readonly<Record<string, Fault>>): void => {
    const named = Object.entries(given).map(([at, fault]) => {
      const [method, id = '1'] = at.split(' ')
      return [`${method} x${tag}${id}`, fault]
    })
    setFaults(host.agent, Object.fromEntries(named) as Record<string, Fault>)
  }
  const limits = () => readGuestLimits(`x${tag}-1`)

  describe('if the agent is killed before it changes the host', () => {
    /** Kills the agent when `order` calls `method`. Repeats this if a periodic comparison called it before `order`. */
    async function killedAt(
      method: string,
      order: () => Promise<unknown>,
      isJournaled: () => boolean | Promise<boolean>,
    ): Promise<void> {
      const before = readInits(instance).get(`x${tag}-1`)
      for (let attempt = 0; attempt === 0 || !(await isJournaled()); attempt++) {
        expect(attempt, 'killed before it was journaled').to.be.below(3)
        faults({ [method]: 'kill' })
        expect(await codeOf(order())).not.to.equal('accepted')
        await waitFor(() => host.agent.exited(), { what: 'the agent to be killed' })
        faults({})
        await host.restart()
        await host.seen(uuid, 1)
      }
      expect(readInits(instance).get(`x${tag}-1`), 'the guest runs on').to.equal(before)
    }

    it('set limits on the host when the agent starts again', async () => {
      const wanted = { ramMb: 128, vcpuMilli: 500, networkUpMbps: 20, ioReadMbps: 7 }
      const isJournaled = (): boolean => host.guest(uuid).limits?.ramMb === 128
      await killedAt('resize', () => host.setLimits(uuid, wanted), isJournaled)
      expect(host.guest(uuid).limits).to.include(wanted)
      expect(limits()).to.include({ memoryBytes: 128 * mib, quotaUsec: 50_000, readBytesPerSec: 7_000_000 })
      expect(config()).to.contain(`= ${128 * mib}\n`)
    })

    it('set rates on the host when the agent starts again', async () => {
      const isJournaled = (): boolean => host.guest(uuid).limits?.networkDownMbps === 33
      await killedAt('apply', () => host.setLimits(uuid, { networkDownMbps: 33 }), isJournaled)
      expect(sh('tc', 'class', 'show', 'dev', `x${tag}1`)).to.match(/class htb .* rate 34/)
    })

    it('add an IPv6 address inside the guest when the agent starts again, and after a reboot of the guest', async () => {
      const isJournaled = (): boolean => host.guest(uuid).ipv6Addresses.join() === `${prefix}7`
      await killedAt('assignAddresses', () => host.assignIpv6(uuid, [`${prefix}7`]), isJournaled)
      expect(addressesInside()).to.contain(`${prefix}7/128`)
      await host.assignIpv6(uuid, [`${prefix}8`])
      await rebootInside()
      for (const address of ['7', '8'])
        await waitFor(() => addressesInside().includes(`${prefix}${address}/128`), { what: address })
    })

    it('complete a port mapping and enforce a new firewall when the agent starts again', async () => {
      const hasMapping = (): boolean => host.guest(uuid).portMappings.length === 1
      const mapping = { containerPort: 80, hostPort: 25_080 }
      await killedAt('attach', () => host.addMapping(uuid, mapping), hasMapping)
      expect(sh('nft', 'list', 'map', 'ip', instance.table, 'ports')).to.contain('25080')
      const firewall = { enabled: true, defaultAction: 'DROP', rules: [] }
      const hasFirewall = async (): Promise<boolean> => (await host.firewall(uuid)).enabled
      await killedAt('attach', () => host.setFirewall(uuid, firewall), hasFirewall)
      expect(sh('nft', 'list', 'map', 'inet', instance.table, 'firewall_in')).to.contain(`in_x${tag}1`)
    })
  })

  describe('if the host rejects both the change and its rollback', () => {
    it('are undone at the next comparison between the agent’s records and the host', async () => {
      const before = limits()
      faults({ apply: 'hold' })
      const answer = codeOf(host.setLimits(uuid, { ramMb: 200, networkDownMbps: 10 }))
      await waitFor(() => limits().memoryBytes === 200 * mib, { what: 'the new limits' })
      faults({ apply: 'fail', resize: 'fail' })
      expect(await answer).not.to.equal('accepted')
      expect(limits().memoryBytes, 'nothing has repaired it').to.equal(200 * mib)
      faults({})
      await waitFor(() => limits().memoryBytes === before.memoryBytes, { what: 'the old limits' })
      const isBack = (): boolean => host.guest(uuid).limits?.ramMb === before.memoryBytes / mib
      await waitFor(isBack, { what: 'the old limits in the report' })
      expect(host.guest(uuid).limits).to.include({ networkDownMbps: 33 })
    })
  })

  it('keep the former firewall in the agent’s journal and in the kernel if the host rejects the new firewall', async () => {
    const chain = (): string => sh('nft', 'list', 'chain', 'inet', instance.table, `in_x${tag}1`)
    const rule = { direction: 'in', protocol: 'tcp', action: 'ACCEPT', network: 'all', port: '2222' }
    await host.setFirewall(uuid, Firewall.fromPartial({ enabled: true, defaultAction: 'DROP', rules: [rule] }))
    const before = [await host.firewall(uuid), chain()]
    faults({ attach: 'fail' })
    const open = { enabled: false, defaultAction: 'ACCEPT', rules: [] }
    expect(await codeOf(host.setFirewall(uuid, open))).to.equal('internal_error')
    expect([await host.firewall(uuid), chain()]).to.deep.equal(before)
    faults({})
    await host.setFirewall(uuid, open)
  })

  describe('for two guests at the same time', () => {
    let other: string
    const ports = (of: string): number[] => host.guest(of).portMappings.map(({ hostPort }) => hostPort)
    const expectConsistent = (): Promise<unknown> =>
      waitFor(() => JSON.stringify(readInventory(instance).ports) === JSON.stringify(expected()), {
        what: () => `${readInventory(instance).ports.join(', ')} to become ${expected().join(', ')}`,
      })
    const expected = (): string[] => readExpected(instance).ports

    before(async () => {
      other = await host.create(2, 'two')
      await host.removeMappings(uuid)
    })
    afterEach(async () => {
      for (const of of [uuid, other]) await host.removeMappings(of)
    })

    it('give one guest’s former host port to the other guest only when the host has applied the change', async () => {
      const { revision } = await host.addMapping(uuid, { containerPort: 22, hostPort: 25_001 })
      await host.seen(uuid, revision)
      faults({ attach: 'hold' })
      const changed = codeOf(host.updateMapping(uuid, 0, { hostPort: 25_002 }))
      await waitFor(() => ports(uuid)[0] === 25_002, { what: 'the journal' })
      for (const hostPort of [25_001, 25_002])
        expect(await codeOf(host.addMapping(other, { containerPort: 1, hostPort }))).to.equal('port_conflict')
      faults({ attach: 'fail' })
      expect(await changed).not.to.be.oneOf(['accepted', 'port_conflict'])
      faults({})
      await waitFor(() => ports(uuid)[0] === 25_001, { what: 'the rollback of the journal' })
      await expectConsistent()
      const { revision: removed } = await host.removeMapping(uuid, 0)
      await host.seen(uuid, removed)
      expect(await codeOf(host.addMapping(other, { containerPort: 1, hostPort: 25_001 }))).to.equal('accepted')
    })

    it('are both rolled back if the host rejects both changes at the same moment', async () => {
      await host.addMapping(uuid, { containerPort: 22, hostPort: 25_001 })
      await host.addMapping(other, { containerPort: 22, hostPort: 25_011 })
      faults({ attach: 'hold', 'attach 2': 'hold' })
      const changed = [codeOf(host.updateMapping(uuid, 0, { hostPort: 25_003 })), codeOf(host.removeMapping(other, 0))]
      await waitFor(() => ports(uuid)[0] === 25_003 && ports(other).length === 0, { what: 'the journal' })
      faults({ attach: 'fail', 'attach 2': 'fail' })
      expect(await Promise.all(changed)).not.to.include('accepted')
      faults({})
      await waitFor(() => ports(uuid)[0] === 25_001 && ports(other)[0] === 25_011, { what: 'the journal' })
      await expectConsistent()
    })

    it('succeed for only one of several requests with the same revision', async () => {
      for (let round = 1; round <= 3; round++) {
        const { revision } = host.guest(uuid)
        const codes = await Promise.all(settingsOf(uuid, { round, ifRevision: revision }).map(codeOf))
        expect(codes.filter((code) => code === 'accepted')).to.have.length(1)
        expect(codes.filter((code) => code === 'precondition_failed')).to.have.length(codes.length - 1)
        await host.seen(uuid, revision + 1)
      }
    })
  })

  describe('if the state of the guest does not allow them', () => {
    it('are rejected as a whole if the guest uses more memory than the new limit', async () => {
      const { revision } = await host.setLimits(uuid, { ramMb: 256, vcpuMilli: 1000 })
      const before = (await host.seen(uuid, revision)).limits
      const eater = spawn('lxc-attach', [
        ...attach,
        'sh',
        '-c',
        'head -c 150m /dev/zero | busybox tail -c 150m | sleep 60',
      ])
      try {
        await waitFor(() => usedMemory() > 150 * mib, { what: 'the guest to use its memory' })
        expect(await codeOf(host.setLimits(uuid, { ramMb: 64, vcpuMilli: 2000 }))).to.equal('memory_in_use')
      } finally {
        eater.kill('SIGKILL')
      }
      expect(host.guest(uuid).limits).to.deep.equal(before)
      expect(limits()).to.include({ memoryBytes: 256 * mib, quotaUsec: 100_000 })
    })

    it('are accepted while the guest is created, except changes of limits', async () => {
      faults({ 'initialize 3': 'hold' })
      const created = await host.orderCreate(3, 'three')
      await host.seen(created.uuid, 1)
      const codes = await Promise.all(settingsOf(created.uuid).map(codeOf))
      expect(codes).to.deep.equal(['accepted', 'accepted', 'task_running', 'accepted', 'accepted', 'accepted'])
      faults({})
      await host.done(created.operationId)
      expect(await codeOf(host.setLimits(created.uuid, { ramMb: 100 }))).to.equal('accepted')
      expect(readGuestLimits(`x${tag}-3`).memoryBytes).to.equal(100 * mib)
      expect(await host.firewall(created.uuid)).to.include({ enabled: true })
    })

    it('are rejected during and after the deletion of the guest', async () => {
      const { uuid: deleted } = host.guests().find(({ id }) => id === 3)!
      faults({ 'delete 3': 'hold' })
      const operation = await host.order('delete', deleted)
      await waitFor(() => host.guest(deleted).status === 'deleting')
      expect(new Set(await Promise.all(settingsOf(deleted).map(codeOf)))).to.deep.equal(new Set(['invalid_state']))
      faults({})
      await host.done(operation)
      expect(new Set(await Promise.all(settingsOf(deleted).map(codeOf)))).to.deep.equal(new Set(['not_found']))
    })

    it('are rejected for a broken guest, which can only be deleted', async () => {
      faults({ 'initialize 4': 'fail', 'delete 4': 'fail' })
      const { uuid: broken } = await host.orderCreate(4, 'four')
      await host.seen(broken, 1)
      await waitFor(() => host.guest(broken).status === 'error')
      expect(new Set(await Promise.all(settingsOf(broken).map(codeOf)))).to.deep.equal(new Set(['invalid_state']))
      faults({})
      expect(await host.power('delete', broken)).to.equal('done')
    })
  })

  /** Sends one setting of each kind. */
  function settingsOf(of: string, { round = 0, ifRevision = 0 } = {}): Promise<unknown>[] {
    const firewall = { enabled: true, defaultAction: round % 2 ? 'ACCEPT' : 'DROP', rules: [] }
    return [
      host.addMapping(of, { containerPort: 1 }, ifRevision),
      host.setFirewall(of, firewall, ifRevision),
      host.setLimits(of, { networkUpMbps: 50 + round }, ifRevision),
      host.setTrafficLimit(of, { monthlyGb: 100 + round }, ifRevision),
      host.setExpiry(of, Date.now() + (1 + round) * 86_400_000, ifRevision),
      host.assignIpv6(of, [], ifRevision),
    ]
  }

  async function setPrefix(): Promise<void> {
    const routing = host.agent.routing()
    const item = { interface: uplink, address: '', prefix, prefixLen: 64, gateway: '' }
    const change = { ipv4Pool: undefined, ipv6Prefixes: { items: [item] }, nat4Ports: undefined, isChecked: false }
    await call(routing.setRouting.bind(routing), change).finally(() => routing.close())
  }

  const usedMemory = (): number => {
    const v1 = '/sys/fs/cgroup/memory'
    const group = `${existsSync(v1) ? v1 : '/sys/fs/cgroup'}/lxc.payload.x${tag}-1`
    return Number(readFileSync(`${group}/${existsSync(v1) ? 'memory.usage_in_bytes' : 'memory.current'}`, 'utf8'))
  }
  const config = (): string => readFileSync(join(instance.stateDir, 'lxc', `x${tag}-1`, 'config'), 'utf8')
  const initOf = (): string => readInits(instance).get(`x${tag}-1`) ?? ''

  /** Output of ip(8) about the addresses inside the guest. It is empty while the guest boots. */
  const addressesInside = (): string => {
    const namespace = `--net=/proc/${initOf().split(':')[0]}/ns/net`
    return spawnSync('nsenter', [namespace, 'ip', '-6', 'address', 'show']).stdout.toString()
  }

  async function rebootInside(): Promise<void> {
    const before = initOf()
    sh('lxc-attach', ...attach, 'busybox', 'reboot', '-f')
    await waitFor(() => !['', before].includes(initOf()), { what: 'the guest to boot again' })
  }
})

const removeUplink = (): void => void spawnSync('ip', ['link', 'delete', uplink])
