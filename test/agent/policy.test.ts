import Database from 'better-sqlite3'
import { expect } from 'chai'
import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { call } from '../support/host/agent-calls.js'
import { AgentProcess } from '../support/host/agent-process.js'
import { expectMore, expectRate, Flow, serveFlows, type FlowOptions, type Way } from '../support/network/flow.js'
import { readInits, type Instance } from '../support/host/inventory.js'
import { SettingsHost } from '../support/host/settings-host.js'
import { PublicSegment } from '../support/network/public-segment.js'
import { waitFor } from '../support/wait.js'
import { deadlineOf } from '../support/promised-time.js'

/*
 * Tests traffic counts, rates, quota, expiry and suspension with a separate agent and a BusyBox guest. A client in a
 * network namespace stands for a machine outside of the host.
 */

const clientAddress = '198.18.8.2'
const segment = new PublicSegment('btestpol', { host: '198.18.8.1', outside: clientAddress })
const atClient = ['ip', 'netns', 'exec', segment.name]
const flowPort = 5201
const exec = promisify(execFile)
const dayMs = 86_400_000
const fakeClock = '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1'

/** Bytes that a guest sends in one exchange: 20 bytes of IP header, 8 bytes of UDP header, and the payload. */
const sentBytes = 28 + 972
const answeredBytes = 28 + 100
const echo = `import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('${clientAddress}', 9))
print('ready', flush=True)
while True:
    data, peer = s.recvfrom(65535)
    s.sendto(data[:100], peer)`
const exchange = `import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(('${clientAddress}', 9))
s.settimeout(5)
for i in range(int(sys.argv[1])):
    s.send(bytes(972))
    s.recv(65535)`

const flood = `import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    try:
        s.sendto(bytes(60000), ('${clientAddress}', 10))
    except OSError:
        pass`

describe('the agent’s enforcement of a guest’s limits', function () {
  let host: SettingsHost
  let uuid: string
  let instance: Instance
  const servers: ChildProcess[] = []

  before(async () => {
    segment.make()
    const traffic = { interval_seconds: 1, throttle_mbps: 5 }
    const config = { traffic, lxc: { stop_timeout_seconds: 2 } }
    host = await SettingsHost.open(await AgentProcess.create('pol', config))
    instance = instanceOf(host.agent)
    uuid = await host.create(1, 'talker')
    servers.push(await serve('/usr/bin/python3', '-c', echo), await serveFlows(atClient, flowPort))
  })
  after(async () => {
    for (const server of servers) server.kill('SIGKILL')
    await host?.destroy()
    segment.remove()
  })

  it('counts each byte of traffic exactly once, even if the agent is killed and the guest restarts', async () => {
    await exchangePackets(500)
    await expectUse(500)
    const running = exchangePackets(20_000)
    await waitFor(async () => (await use())[1] > 2000 * sentBytes, { what: 'half-way' })
    await host.agent.kill()
    await running
    await reconnect()
    await expectUse(20_500)
    await host.power('restart', uuid)
    await exchangePackets(300)
    await expectUse(20_800)
    await resetTraffic()
    expect(await use()).to.deep.equal([0, 0])
    await exchangePackets(300)
    await resetTraffic() // must also cover the last packets, which the agent has not counted yet
    await exchangePackets(10)
    await expectUse(10)
  })

  it('stops and blocks the guest when its quota is used up, until its traffic count is reset', async () => {
    await limitTraffic({ monthlyGb: 1, action: 'stop' })
    await useQuota(() => guest().policyBlocked)
    await waitFor(() => guest().status === 'stopped')
    expect(guest().policyReason).to.equal('traffic quota used up')
    expect(await host.power('start', uuid)).to.equal('policy_blocked')
    expect(await host.power('restart', uuid)).to.equal('policy_blocked')
    await host.agent.kill()
    await reconnect()
    expect([guest().policyBlocked, guest().status]).to.deep.equal([true, 'stopped'])
    await resetTraffic()
    await waitFor(() => !guest().policyBlocked)
    expect(guest().status, 'not started by itself').to.equal('stopped')
    expect(await host.power('start', uuid)).to.equal('done')
  })

  it('stops forwarding packets as soon as the quota is used up, even if the guest stops slowly', async () => {
    await resetTraffic()
    await limitTraffic({ monthlyGb: 1, action: 'stop' })
    process.kill(await initPid(), 'SIGSTOP') // a stopped init does not handle the signal to halt
    await whileFlooding(async () => {
      await waitFor(() => guest().policyBlocked)
      const before = countSent()
      await waitFor(() => guest().status === 'stopped')
      expect(countSent() - before, 'bytes').to.be.below(50e6)
    })
    await resetTraffic()
    await waitFor(() => !guest().policyBlocked)
    expect(await host.power('start', uuid)).to.equal('done')
  })

  it('throttles a guest with the action “throttle” when its quota is used up, until the quota is raised', async () => {
    await limitTraffic({ monthlyGb: 1, action: 'throttle' })
    await useQuota(() => guest().throttled)
    expect(guest().policyBlocked).to.equal(false)
    await expectRate(await flow('up'), 5, 'throttled')
    await host.power('restart', uuid)
    await expectRate(await flow('up'), 5, 'after a restart of the guest')
    await limitTraffic({ monthlyGb: 5000 })
    expect(guest().throttled).to.equal(false)
    await expectMore(await flow('up'), 100)
  })

  it('applies rates to the running guest, keeps them after restarts, and removes them on request', async () => {
    await setRates(30, 20)
    await expectRates('live', 30, 20)
    await host.power('restart', uuid)
    await expectRates('after a restart of the guest', 30, 20)
    await host.agent.kill()
    await expectRates('without an agent', 30, 20)
    await reconnect()
    for (const way of ['root', 'ingress']) {
      execFileSync('tc', ['qdisc', 'delete', 'dev', 'xpol1', way])
      await waitFor(() => /htb.*\n.*bfifo.*\n.*ingress/.test(qdiscs()), {
        timeoutMs: deadlineOf(5000),
        what: qdiscs,
      })
    }
    await expectRates('after a repair', 30, 20)
    await setRates(0, 0)
    expect(qdiscs()).to.match(/^qdisc noqueue/)
  })

  it('stops and blocks the guest at its expiry date, and unblocks it if the date is extended', async () => {
    await setExpiry(Date.now() + 5000)
    expect(guest().policyBlocked).to.equal(false)
    const isEnded = (): boolean => guest().policyBlocked && guest().status === 'stopped'
    await waitFor(isEnded, { what: 'its end' })
    expect(guest().policyReason).to.equal('expired')
    expect(await host.power('start', uuid)).to.equal('policy_blocked')
    await setExpiry(Date.now() + dayMs)
    await waitFor(() => !guest().policyBlocked)
    await setExpiry(0)
    expect(await host.power('start', uuid)).to.equal('done')
  })

  it('keeps a guest suspended in the mode “network” disconnected even if it reboots while no agent runs', async () => {
    await exchangePackets(5)
    await suspend('network')
    expect(guest()).to.include({ status: 'running', policyBlocked: true })
    expect(guest().blocks).to.deep.equal(['suspended'])
    await expectSilent()
    expect(await host.power('restart', uuid)).to.equal('policy_blocked')
    await host.agent.kill()
    const before = await initPid()
    process.kill(before, 'SIGTERM') // init reboots the guest, whose new interface is up while no agent runs
    await waitFor(async () => (await initPid()) !== before, { what: 'the reboot' })
    await expectSilent()
    await reconnect()
    await expectSilent()
    expect(guest().status).to.equal('running')
    await unsuspend()
    await waitFor(
      () =>
        exchangePackets(5).then(
          () => true,
          () => false,
        ),
      { what: 'a way out' },
    )
  })

  it('completes the start and the end of a suspension even if the agent is killed during each of them', async () => {
    await suspend('stop')
    await host.agent.kill() // killed after the suspension is in the journal and before it takes effect
    await reconnect()
    await waitFor(() => guest().status === 'stopped', { what: 'its end' })
    for (const action of ['start', 'restart'] as const)
      expect(await host.power(action, uuid)).to.equal('policy_blocked')
    expect(readInits(instance).size).to.equal(0)
    await unsuspend()
    await host.agent.kill()
    await reconnect()
    await waitFor(() => guest().status === 'running', { what: 'the guest' })
    expect(guest()).to.include({ policyBlocked: false, suspension: undefined })
    await exchangePackets(5)
  })

  it('resets the traffic count once per month, even if the clock jumps back and forth', async () => {
    const nextMonth = { FAKETIME: `+${daysToNextMonth()}d` }
    await exchangePackets(10)
    await waitFor(async () => (await use())[1] >= 10 * sentBytes)
    const [first] = readCount()
    await restartAt(nextMonth)
    const turned = await waitFor(() => (readCount()[0] > first ? readCount() : undefined))
    expect(turned.slice(1)).to.deep.equal([0, 0])
    await exchangePackets(7)
    const counted = [turned[0], 7 * answeredBytes, 7 * sentBytes]
    await waitFor(() => readCount()[2] === counted[2], { what: () => readCount().join(' ') })
    for (const clock of [{}, nextMonth, {}]) {
      await restartAt(clock)
      await exchangePackets(1)
      counted[1] = Number(counted[1]) + answeredBytes
      counted[2] = Number(counted[2]) + sentBytes
      await waitFor(() => readCount()[2] === counted[2], {
        what: () => `${readCount().join(' ')} to become ${counted.join(' ')}`,
      })
      expect(readCount()).to.deep.equal(counted)
    }
    await reconnect()
  })

  /** Restarts the agent with the real clock, connects to it, and waits until it reports the guest. */
  async function reconnect(): Promise<void> {
    await host.restart()
    await host.seen(uuid, 1)
  }

  /** Restarts the agent with a wrong clock. The agent then rejects all certificates, so tests only read its journal. */
  async function restartAt(clock: Record<string, string>): Promise<void> {
    await host.agent.kill('SIGTERM')
    const faked = { ...clock, LD_PRELOAD: fakeClock, FAKETIME_DONT_FAKE_MONOTONIC: '1' }
    await host.agent.start(Object.keys(clock).length > 0 ? faked : {})
  }

  function readCount(): [string, number, number] {
    const db = new Database(join(host.agent.directory, 'state', 'journal.db'), { readonly: true })
    const row = db.prepare('SELECT period_start, rx_bytes, tx_bytes FROM traffic').raw().get()
    db.close()
    return row as [string, number, number]
  }

  const guest = (): Guest => host.guest(uuid)

  const resetTraffic = () => host.resetTraffic(uuid)

  async function limitTraffic(change: { monthlyGb?: number; action?: string }): Promise<void> {
    const mode = 'total'
    await host.seen(uuid, (await host.setTrafficLimit(uuid, { mode, ...change })).revision)
  }

  const setRates = (networkDownMbps: number, networkUpMbps: number) =>
    host.setLimits(uuid, { networkDownMbps, networkUpMbps })

  async function expectRates(when: string, down: number, up: number): Promise<void> {
    await expectRate(await flow('down'), down, when)
    await expectRate(await flow('up'), up, when)
  }

  const qdiscs = (): string => execFileSync('tc', ['qdisc', 'show', 'dev', 'xpol1']).toString()

  async function setExpiry(expiresAtMs: number): Promise<void> {
    await host.seen(uuid, (await host.setExpiry(uuid, expiresAtMs)).revision)
  }

  async function suspend(mode: string): Promise<void> {
    const value = { mode, reason: 'unpaid', message: 'Please pay', untilMs: 0 }
    await host.seen(uuid, (await host.change(uuid, { $case: 'suspend', value })).revision)
  }

  async function unsuspend(): Promise<void> {
    await host.seen(uuid, (await host.change(uuid, { $case: 'unsuspend', value: {} })).revision)
  }

  /** Fails if a packet of the guest is answered, or if nft lets the guest send. The guest's interface may be up. */
  async function expectSilent(): Promise<void> {
    const isSent = await exchangePackets(1).then(
      () => true,
      () => false,
    )
    expect(isSent, 'an answer').to.equal(false)
    const senders = execFileSync('nft', ['list', 'set', 'bridge', instance.table, 'guests']).toString()
    expect(senders).not.to.contain('"xpol1"')
  }

  async function use(): Promise<[number, number]> {
    const { rxBytes, txBytes } = await call(host.client.getTraffic.bind(host.client), { uuid })
    return [Number(rxBytes), Number(txBytes)]
  }

  async function expectUse(exchanges: number): Promise<void> {
    const wanted = [exchanges * answeredBytes, exchanges * sentBytes]
    let last: number[] = []
    await waitFor(async () => (last = await use()).every((bytes, way) => bytes >= wanted[way]!), {
      what: () => `${wanted.join(' ')} counted, ${last.join(' ')}`,
    })
    expect(await use()).to.deep.equal(wanted)
  }

  async function initPid(): Promise<number> {
    const init = await waitFor(() => [...readInits(instance).values()][0])
    return Number(init.split(':')[0])
  }

  /** Command prefix that runs a program of the host in the guest's network. */
  async function atGuest(): Promise<string[]> {
    return ['nsenter', '-t', String(await initPid()), '-n']
  }

  /** Calls `work` while the guest sends as many packets as it can. */
  async function whileFlooding(work: () => Promise<void>): Promise<void> {
    const [program = '', ...args] = [...(await atGuest()), '/usr/bin/python3', '-c', flood]
    const sender = spawn(program, args, { stdio: 'ignore' })
    try {
      await work()
    } finally {
      sender.kill('SIGKILL')
    }
  }

  /** Bytes sent by the guest, read directly from the kernel's counter. */
  function countSent(): number {
    const set = execFileSync('nft', ['list', 'set', 'inet', instance.table, 'sent']).toString()
    return Number(/ bytes (\d+)/.exec(set)?.[1])
  }

  async function exchangePackets(count: number): Promise<void> {
    const [program = '', ...args] = [...(await atGuest()), '/usr/bin/python3', '-c', exchange, String(count)]
    await exec(program, args)
  }

  async function flow(way: Way): Promise<FlowOptions> {
    return { at: await atGuest(), host: clientAddress, port: flowPort, way }
  }

  /** Uploads until `isDone` returns true, which means that the quota is used up and the agent has reacted. */
  async function useQuota(isDone: () => boolean): Promise<void> {
    const upload = new Flow(await flow('up'))
    await waitFor(isDone, { what: 'the quota used up' }).finally(() => upload.end())
  }

  async function serve(program: string, ...argv: string[]): Promise<ChildProcess> {
    const [ip = '', ...args] = [...atClient, program, ...argv]
    const child = spawn(ip, args, { stdio: ['ignore', 'pipe', 'ignore'] })
    await once(child.stdout, 'data')
    child.stdout.resume()
    return child
  }
})

function instanceOf({ directory }: AgentProcess): Instance {
  const [stateDir, pool] = [join(directory, 'state'), join(directory, 'pool')]
  return { stateDir, pool, table: 'btest_pol', interfacePrefix: 'xpol' }
}

function daysToNextMonth(): number {
  const now = new Date()
  const next = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)
  return Math.ceil((next - now.getTime()) / dayMs) + 1
}
