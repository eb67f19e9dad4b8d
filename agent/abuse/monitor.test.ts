import { expect } from 'chai'
import { guestOnNetwork } from '../../test/support/network/guest-on-network.js'
import { MemorySensor } from '../../test/support/memory/memory-sensor.js'
import { silentLog } from '../../test/support/gateway/redis.js'
import { validateConfig } from '../../shared/config.js'
import { AgentConfigSchema } from '../config.js'
import { GuestStore } from '../guests/record/guest-store.js'
import type { PacketSample } from '../host/net/packet-log.js'
import { Changes } from '../state/changes.js'
import { openDatabase } from '../state/database.js'
import { AbuseWatch } from './abuse-watch.js'
import type { OpenedFlow } from './contract.js'
import { noCounts } from './plan-counts.js'
import type { AlertRecord } from './alert-store.js'

const source = '10.0.0.2'
const startMs = 1_000_000_000
const everyMs = 10_000
/** Maximum number of guests whose flows one evaluation reads. */
const suspectsAtOnce = 8
const addresses = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}.${index + 1}`)

describe('the abuse monitor', () => {
  let sensor: MemorySensor
  let store: GuestStore
  let nowMs = startMs
  const opened: AbuseWatch[] = []

  beforeEach(() => {
    nowMs = startMs
    sensor = new MemorySensor()
    store = new GuestStore(new Changes(openDatabase(':memory:')))
    const none = { publicIpv4s: [], ipv6Addresses: [] }
    store.insert(guestOnNetwork({ uuid: 'guest', device: 'bt70', mac: '02:00:00:00:00:70', ipv4: source, ...none }))
  })
  afterEach(async () => {
    for (const watch of opened.splice(0)) await watch.close()
  })

  /** Starts the watch, which evaluates only on request. @param security overrides in `security` of agent.yaml */
  async function start(security: object = {}): Promise<AbuseWatch> {
    const config = validateConfig(AgentConfigSchema, { security: { interval_seconds: 60, ...security } }, 'test')
    const context = { config, store, log: silentLog, deviceOf: (id: number) => `bt${id}`, now: () => nowMs }
    const watch = new AbuseWatch({ context, sensor, policy: { judge: () => Promise.resolve() } })
    opened.push(watch)
    await watch.start()
    return watch
  }
  async function look(watch: AbuseWatch): Promise<readonly AlertRecord[]> {
    nowMs += everyMs
    await watch.monitor.look()
    return watch.alerts.list(-1)
  }

  /** A guest tries to connect to port 443 of all `hosts`. The hosts in `refused` refuse the connection. */
  function ask(hosts: readonly string[], refused: readonly string[]): void {
    const sample =
      (kind: 'opened' | 'refused') =>
      (target: string): PacketSample => ({ kind, guest: source, target, protocol: 'tcp', port: 443, count: 1 })
    sensor.report([...hosts.map(sample('opened')), ...refused.map(sample('refused'))])
    const before = sensor.counts.get('guest') ?? noCounts
    sensor.counts.set('guest', {
      ...before,
      opened: before.opened + hosts.length,
      accepted: before.accepted + hosts.length - refused.length,
      refused: before.refused + refused.length,
    })
  }
  const answeredFlow = (target: string, index: number): OpenedFlow => ({
    protocol: 'tcp',
    source,
    target,
    sourcePort: 30_000 + index,
    targetPort: 443,
    state: 'ESTABLISHED',
    unreplied: false,
    leftSeconds: 300,
    bytes: 900,
    replyBytes: 9000,
  })

  const [alive, dead] = [addresses('198.19.1', 200), addresses('198.19.2', 30)]

  it('does not report a crawler with dead links if the connection table shows that most targets answered', async () => {
    const watch = await start()
    expect(await look(watch)).to.deep.equal([])
    sensor.flows = alive.map(answeredFlow)
    for (let round = 0; round < 6; round++) {
      ask([...alive, ...dead], dead)
      expect(await look(watch), `look ${round}`).to.deep.equal([])
    }
  })

  it('does not report a crawler before the answers are read from the connection table', async () => {
    const watch = await start()
    for (let id = 1; id <= suspectsAtOnce; id++) addSuspect(`other-${id}`, id)
    const asked: string[] = []
    const readFlowsOf = sensor.readFlowsOf.bind(sensor)
    sensor.readFlowsOf = (of) => (asked.push(...of), readFlowsOf(of))
    sensor.flows = alive.map(answeredFlow)
    for (const isAsked of [false, true]) {
      ask([...alive, ...dead], dead)
      const alerts = await look(watch)
      expect(asked.includes(source), 'read from the host').to.equal(isAsked)
      expect(alerts.filter(({ guestUuid }) => guestUuid === 'guest')).to.deep.equal([])
    }
  })

  /** Adds a guest that sends UDP packets. The guest is a suspect, because the outcome of its flows is not known. */
  function addSuspect(uuid: string, id: number): void {
    const ipv4 = `10.0.1.${id}`
    const none = { publicIpv4s: [], ipv6Addresses: [] }
    store.insert(guestOnNetwork({ uuid, device: `bt${id}`, mac: `02:00:00:00:01:0${id}`, ipv4, ...none }))
    const opened = { kind: 'opened', guest: ipv4, target: '198.19.3.3', protocol: 'udp', count: 1 } as const
    sensor.report(Array.from({ length: 40 }, (_, port) => ({ ...opened, port: port + 1 })))
  }

  it('reports a scan with few answered connections as soon as the connection table is read', async () => {
    const watch = await start()
    await look(watch)
    sensor.flows = alive.slice(0, 5).map(answeredFlow)
    ask([...alive.slice(0, 5), ...dead], dead)
    const [alert] = await look(watch)
    expect([alert?.type, alert?.severity, alert?.targetPort]).to.deep.equal(['horizontal_scan', 'medium', 443])
  })

  it('removes its rules and cancels planned stops of guests when detection is switched off', async () => {
    const before = await start()
    await before.shutdown.set(true)
    const pending = {
      guestUuid: 'guest',
      guestId: 70,
      guestName: 'guest-70',
      sourceIp: source,
      targetIp: '*',
    }
    before.alerts.put(undefined, {
      ...pending,
      targetPort: 0,
      type: 'ddos',
      severity: 'critical',
      detail: '',
      firstAtMs: nowMs,
      lastAtMs: nowMs,
      count: 3,
      action: 'stop_pending',
      stopAtMs: nowMs + 1,
      criticalAtMs: nowMs,
    })
    expect(sensor.isRemoved).to.equal(false)
    const watch = await start({ enabled: false })
    expect(sensor.isRemoved).to.equal(true)
    const [alert] = await look(watch)
    expect(alert?.action).to.equal('canceled')
    expect(store.get('guest').policy.abuse).to.equal(undefined)
  })
})
