import { expect } from 'chai'
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { call } from '../support/agent-calls.js'
import { createFaultyAgent, setFaults, type Fault } from '../support/faulty-agent.js'
import { readGuestLimits, readInits, type Instance } from '../support/inventory.js'
import { codeOf, SettingsHost } from '../support/settings-host.js'
import { waitFor } from '../support/wait.js'

const tag = 'sf'
const prefix = '2001:db8:5f:1::'
/** The prefix has to be of some interface; no packet leaves by it. */
const uplink = 'btestsf0'
const forwarding = 'net.ipv6.conf.all.forwarding'
const mib = 1024 ** 2

/** Settings of guests whose agent is killed, or whose host refuses, at the worst moment. */
describe('settings where something fails', function () {
  this.timeout(120_000)
  let host: SettingsHost
  let instance: Instance
  let uuid: string
  let forwardedBefore = '0'

  before(async () => {
    forwardedBefore = sh('sysctl', '-n', forwarding).trim()
    host = await SettingsHost.open(await createFaultyAgent(tag))
    const { directory } = host.agent
    const [stateDir, pool] = [join(directory, 'state'), join(directory, 'pool')]
    instance = { stateDir, pool, table: `btest_${tag}`, interfacePrefix: `x${tag}` }
    removeUplink()
    sh('ip', 'link', 'add', uplink, 'type', 'veth', 'peer', 'name', `${uplink}p`)
    await setPrefix()
    uuid = await host.create(1, 'one')
  })
  after(async () => {
    await host?.destroy()
    removeUplink()
    sh('sysctl', '-qw', `${forwarding}=${forwardedBefore}`)
  })
  afterEach(() => setFaults(host.agent, {}))

  const faults = (given: Readonly<Record<string, Fault>>): void =>
    setFaults(
      host.agent,
      Object.fromEntries(Object.entries(given).map(([method, fault]) => [`${method} x${tag}1`, fault])),
    )
  const limits = () => readGuestLimits(`x${tag}-1`)

  describe('killed between journal and host', () => {
    /** A comparison may come to the same place before the order: then it is killed again. */
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

    it('limits hold once the agent is back', async () => {
      const wanted = { ramMb: 128, vcpuMilli: 500, networkUpMbps: 20, ioReadMbps: 7 }
      const isJournaled = (): boolean => host.guest(uuid).limits?.ramMb === 128
      await killedAt('resize', () => host.setLimits(uuid, wanted), isJournaled)
      expect(host.guest(uuid).limits).to.include(wanted)
      expect(limits()).to.include({ memoryBytes: 128 * mib, quotaUsec: 50_000, readBytesPerSec: 7_000_000 })
      expect(config()).to.contain(`= ${128 * mib}\n`)
    })

    it('rates hold once the agent is back', async () => {
      const isJournaled = (): boolean => host.guest(uuid).limits?.networkDownMbps === 33
      await killedAt('apply', () => host.setLimits(uuid, { networkDownMbps: 33 }), isJournaled)
      expect(sh('tc', 'class', 'show', 'dev', `x${tag}1`)).to.match(/class htb .* rate 34/)
    })

    it('an IPv6 address is inside the guest once the agent is back, and after a reboot of its own', async () => {
      const isJournaled = (): boolean => host.guest(uuid).ipv6Addresses.join() === `${prefix}7`
      await killedAt('assignAddresses', () => host.assignIpv6(uuid, [`${prefix}7`]), isJournaled)
      expect(addressesInside()).to.contain(`${prefix}7/128`)
      await host.assignIpv6(uuid, [`${prefix}8`])
      await rebootInside()
      for (const address of ['7', '8']) expect(addressesInside()).to.contain(`${prefix}${address}/128`)
    })

    it('a mapping leads into the guest, and the firewall stands', async () => {
      const hasMapping = (): boolean => host.guest(uuid).portMappings.length === 1
      const mapping = { containerPort: 80, hostPort: 35_080 }
      await killedAt('attach', () => host.addMapping(uuid, mapping), hasMapping)
      expect(sh('nft', 'list', 'map', 'ip', instance.table, 'ports')).to.contain('35080')
      const firewall = { enabled: true, defaultAction: 'DROP', rules: [] }
      const hasFirewall = async (): Promise<boolean> => (await host.firewall(uuid)).enabled
      await killedAt('attach', () => host.setFirewall(uuid, firewall), hasFirewall)
      expect(sh('nft', 'list', 'map', 'inet', instance.table, 'firewall_in')).to.contain(`in_x${tag}1`)
    })
  })

  describe('refused by the host', () => {
    it('limits that could not be taken back either are made true by the next comparison', async () => {
      const before = limits()
      faults({ apply: 'hold' })
      const answer = codeOf(host.setLimits(uuid, { ramMb: 200, networkDownMbps: 10 }))
      await waitFor(() => limits().memoryBytes === 200 * mib, { what: 'the new limits' })
      faults({ apply: 'fail', resize: 'fail' })
      expect(await answer).not.to.equal('accepted')
      expect(limits().memoryBytes, 'nothing has mended it').to.equal(200 * mib)
      faults({})
      await waitFor(() => limits().memoryBytes === before.memoryBytes, { what: 'the old limits' })
      expect(host.guest(uuid).limits).to.include({ ramMb: before.memoryBytes / mib, networkDownMbps: 33 })
    })
  })

  async function setPrefix(): Promise<void> {
    const routing = host.agent.routing()
    const item = { interface: uplink, address: '', prefix, prefixLen: 64, gateway: '' }
    const change = { ipv4Pool: undefined, ipv6Prefixes: { items: [item] }, nat4Ports: undefined }
    await call(routing.setRouting.bind(routing), change).finally(() => routing.close())
  }

  const config = (): string => readFileSync(join(instance.stateDir, 'lxc', `x${tag}-1`, 'config'), 'utf8')
  const initOf = (): string => readInits(instance).get(`x${tag}-1`) ?? ''

  const addressesInside = (): string =>
    sh('nsenter', `--net=/proc/${initOf().split(':')[0]}/ns/net`, 'ip', '-6', 'address', 'show')

  async function rebootInside(): Promise<void> {
    const before = initOf()
    sh(
      ...(['lxc-attach', '-P', join(instance.stateDir, 'lxc'), '-n', `x${tag}-1`] as const),
      ...['--clear-env', '--', 'busybox', 'reboot', '-f'],
    )
    await waitFor(() => !['', before].includes(initOf()), { what: 'the guest to boot again' })
  }
})

const removeUplink = (): void => void spawnSync('ip', ['link', 'delete', uplink])

const sh = (program: string, ...args: string[]): string =>
  execFileSync(program, args, { stdio: ['ignore', 'pipe', 'pipe'] }).toString()
