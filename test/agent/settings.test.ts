import Database from 'better-sqlite3'
import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { FirewallRule, type Firewall } from '../../proto/gen/berth/agent/v1/network.js'
import { call } from '../support/host/agent-calls.js'
import { AgentProcess } from '../support/host/agent-process.js'
import { readGuestLimits } from '../support/host/inventory.js'
import { askPeer, codeOf, SettingsHost } from '../support/host/settings-host.js'
import { waitFor } from '../support/wait.js'

const tag = 'st'
const day = 86_400_000

/** Uses a separate agent with BusyBox guests. port-mappings.test.ts tests port mappings. */
describe('the settings of a guest', function () {
  let host: SettingsHost
  /** UUID of a running guest. The other guest, `stopped`, never ran. */
  let running: string
  let stopped: string

  before(async () => {
    host = await SettingsHost.open(await AgentProcess.create(tag, { lxc: { stop_timeout_seconds: 1 } }))
    running = await host.create(1, 'runs')
    stopped = await host.create(2, 'stopped', { start: false })
  })
  after(() => host?.destroy())

  describe('for the firewall', () => {
    const set = async (uuid: string, firewall: Firewall, ifRevision = 0): Promise<Firewall> =>
      (await host.setFirewall(uuid, firewall, ifRevision)).firewall
    const rule = (fields: Partial<FirewallRule>): FirewallRule =>
      FirewallRule.create({ direction: 'in', protocol: 'tcp', action: 'ACCEPT', network: 'all', ...fields })
    const off = { enabled: false, defaultAction: 'ACCEPT', rules: [] }
    afterEach(() => set(running, off))

    it('leave the firewall of a new guest off, and contain rules in normalized form, whose ids stay the same', async () => {
      expect(await host.firewall(stopped)).to.deep.equal(off)
      const wanted = {
        enabled: true,
        defaultAction: 'DROP',
        rules: [rule({ port: '443, 80', sourceIp: '198.51.100.9/24' }), rule({ id: 'made-up', protocol: 'icmp' })],
      }
      const stored = await set(stopped, wanted)
      expect(stored.rules[0]).to.include({ port: '80,443', sourceIp: '198.51.100.0/24' })
      expect(stored.rules.map(({ id }) => id))
        .not.to.include('made-up')
        .and.not.to.include('')
      expect(await host.firewall(stopped)).to.deep.equal(stored)
      const again = await set(stopped, { ...stored, rules: [...stored.rules, rule({ port: '22' })] })
      expect(again.rules.slice(0, 2)).to.deep.equal(stored.rules)
    })

    it('stay unchanged if the new rules are invalid or the revision is outdated', async () => {
      const stored = await set(stopped, {
        enabled: true,
        defaultAction: 'DROP',
        rules: [rule({ port: '22' })],
      })
      const wrong = { ...stored, rules: [rule({ port: '22; flush ruleset' })] }
      expect(await codeOf(set(stopped, wrong))).to.equal('invalid_field')
      expect(await codeOf(set(stopped, off, 1))).to.equal('precondition_failed')
      expect(await host.firewall(stopped)).to.deep.equal(stored)
    })

    it('are in force when the answer to a change arrives', async () => {
      const echo = host.answerInside(`x${tag}-1`, 8082)
      const address = host.guest(running).ipv4
      try {
        await waitFor(async () => (await askPeer(address, 8082)) === 'hello', { what: 'an answer' })
        await set(running, { enabled: true, defaultAction: 'DROP', rules: [rule({ port: '22' })] })
        expect(await askPeer(address, 8082)).not.to.equal('hello')
        await set(running, { enabled: true, defaultAction: 'DROP', rules: [rule({ port: '8082' })] })
        expect(await askPeer(address, 8082)).to.equal('hello')
      } finally {
        echo.kill('SIGKILL')
      }
    })
  })

  describe('for the limits', () => {
    it('apply immediately to a running guest, and stay unchanged if a change omits them', async () => {
      const before = host.guest(running).limits!
      const { limits, revision } = await host.setLimits(running, { ramMb: 128, networkDownMbps: 50 })
      expect(limits).to.deep.equal({ ...before, ramMb: 128, networkDownMbps: 50 })
      expect((await host.seen(running, revision)).limits).to.deep.equal(limits)
      expect(memoryLimit(1)).to.equal(128 * 1024 ** 2)
      expect(rateMbps(1)).to.be.within(45, 55)
      await host.setLimits(running, { networkDownMbps: 0 })
      expect(rateMbps(1)).to.equal(undefined)
    })

    it('are rejected without a change if they exceed the host’s capacity or the permitted values', async () => {
      const before = host.guest(running).limits!
      expect(await codeOf(host.setLimits(running, { vcpuMilli: 250_000 }))).to.equal('resource_exhausted')
      expect(await codeOf(host.setLimits(running, { ramMb: 4_000_000 }))).to.equal('resource_exhausted')
      expect(await codeOf(host.setLimits(running, { networkUpMbps: 1e9 }))).to.equal('invalid_field')
      expect(host.guest(running).limits).to.deep.equal(before)
    })

    it('stay in force if the host is too small for them, and can each be changed to a value that fits', async () => {
      const { vcpuMilli, ramMb } = host.guest(stopped).limits!
      const tooLarge = { vcpuMilli: 250_000, ramMb: 4_000_000 }
      await rewriteLimits(stopped, tooLarge)
      const { limits } = await host.setLimits(stopped, { networkUpMbps: 10 })
      expect(limits).to.include({ ...tooLarge, networkUpMbps: 10 })
      await host.setLimits(stopped, { ...tooLarge, networkUpMbps: 0 })
      expect(await codeOf(host.setLimits(stopped, { vcpuMilli: 240_000 }))).to.equal('resource_exhausted')
      await host.setLimits(stopped, { ramMb })
      await host.setLimits(stopped, { vcpuMilli })
    })

    it('apply to a stopped guest at its next start', async () => {
      await host.setLimits(stopped, { ramMb: 96, networkDownMbps: 20 })
      expect(await host.power('start', stopped)).to.equal('done')
      expect(memoryLimit(2)).to.equal(96 * 1024 ** 2)
      expect(rateMbps(2)).to.be.within(18, 22)
      expect(await host.power('stop', stopped)).to.equal('done')
    })

    /** Writes limits to the agent's journal, as if they had been set when the host was larger. */
    async function rewriteLimits(uuid: string, change: Record<string, number>): Promise<void> {
      host.disconnect()
      await host.agent.kill('SIGTERM')
      const db = new Database(join(host.agent.directory, 'state', 'journal.db'))
      const patch = JSON.stringify({ limits: change })
      db.prepare('UPDATE guests SET spec = json_patch(spec, ?) WHERE uuid = ?').run(patch, uuid)
      db.close()
      await host.start()
      await host.seen(uuid, 1)
    }

    const memoryLimit = (id: number): number => readGuestLimits(`x${tag}-${id}`).memoryBytes
    const rateMbps = (id: number): number | undefined => {
      const classes = execFileSync('tc', ['class', 'show', 'dev', `x${tag}${id}`]).toString()
      const [, rate, unit] = /^class htb .* rate ([\d.]+)([KM])bit/m.exec(classes) ?? []
      return rate === undefined ? undefined : Number(rate) / (unit === 'K' ? 1000 : 1)
    }
  })

  describe('for the quota and the expiry', () => {
    it('block and stop an expired guest until its expiry is extended', async () => {
      await host.setExpiry(running, Date.now() - 1000)
      const blocked = await waitFor(() => {
        const { status, policyBlocked } = host.guest(running)
        return policyBlocked && status === 'stopped' ? host.guest(running) : undefined
      })
      expect(blocked.policyReason).to.equal('expired')
      expect(await host.power('start', running)).to.equal('policy_blocked')
      const { revision } = await host.setExpiry(running, Date.now() + day)
      expect(await host.seen(running, revision)).to.deep.include({ policyBlocked: false, policyReason: '' })
      expect(await host.power('start', running)).to.equal('done')
      await host.setExpiry(running, 0)
      expect(await codeOf(host.setExpiry(running, -5))).to.equal('invalid_field')
    })

    it('keep the fields of a quota that a change omits', async () => {
      await host.setTrafficLimit(stopped, { monthlyGb: 100, resetDay: 5 })
      const { traffic } = await host.setTrafficLimit(stopped, { monthlyGb: 50 })
      expect(traffic).to.include({ monthlyGb: 50, resetDay: 5 })
      expect(await codeOf(host.setTrafficLimit(stopped, { resetDay: 32 }))).to.equal('invalid_field')
      const read = await call(host.client.getTraffic.bind(host.client), { uuid: stopped })
      expect(read.limit).to.deep.equal(traffic)
      expect(read.periodStart).to.match(/^\d{4}-\d\d-05$/)
    })
  })

  it('stay the same if the agent is killed and started again', async () => {
    await host.addMapping(running, { containerPort: 22, hostPort: 27022 })
    const firewall = { enabled: true, defaultAction: 'DROP', rules: [] }
    const { revision } = await host.setFirewall(running, firewall)
    const before = await host.seen(running, revision)
    await host.restart()
    const after = await host.seen(running, 1)
    expect({ ...after, revision: 0 }).to.deep.equal({ ...before, revision: 0 })
    expect(await host.firewall(running)).to.deep.equal(firewall)
  })
})
