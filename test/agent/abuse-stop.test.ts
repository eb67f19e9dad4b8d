import Database from 'better-sqlite3'
import { expect } from 'chai'
import { spawn, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { AlertState } from '../../agent/abuse/plan-merge.js'
import { call, operationDone, submit } from '../support/host/agent-calls.js'
import { AgentProcess } from '../support/host/agent-process.js'
import { readInits, type Instance } from '../support/host/inventory.js'
import { PublicSegment } from '../support/network/public-segment.js'
import { SettingsHost } from '../support/host/settings-host.js'
import { waitFor } from '../support/wait.js'

/*
 * Here a BusyBox guest tries 25 ports per second of one outside address. The agent reports the scan, waits, disconnects
 * the guest and stops it, even if the agent is killed in between. A start by an administrator ends the suspension.
 */

const outside = '198.18.29.2'
const segment = new PublicSegment('btestabs', { host: '198.18.29.1', outside })
const graceSeconds = 25
const scanner = `import socket, time
port = 1
while True:
    s = socket.socket()
    s.settimeout(0.2)
    s.connect_ex(('${outside}', 1 + port % 60000))
    s.close()
    port += 1
    time.sleep(0.04)`

describe('a guest that scans the ports of another machine', function () {
  let host: SettingsHost
  let uuid: string
  let quiet: string
  let instance: Instance
  let scan: ChildProcess | undefined

  before(async () => {
    segment.make()
    const agent = await AgentProcess.create('abs', {
      lxc: { stop_timeout_seconds: 2 },
      security: { interval_seconds: 1, grace_seconds: graceSeconds, port_scan: { medium: 5, high: 10, critical: 40 } },
    })
    host = await SettingsHost.open(agent)
    const directory = host.agent.directory
    instance = {
      stateDir: join(directory, 'state'),
      pool: join(directory, 'pool'),
      table: 'btest_abs',
      interfacePrefix: 'xabs',
    }
    uuid = await create(1, 'scanner')
    quiet = await create(2, 'quiet')
    await setShutdown(true)
  })
  after(async () => {
    scan?.kill('SIGKILL')
    await host?.destroy()
    segment.remove()
  })

  /** Maps the UUID of a guest to its LXC name. */
  const names = new Map<string, string>()
  async function create(id: number, name: string): Promise<string> {
    const made = await host.create(id, name)
    const known = [...names.values()]
    const isNew = (one: string): boolean => !known.includes(one)
    names.set(made, await waitFor(() => [...readInits(instance).keys()].find(isNew), { what: 'it runs' }))
    return made
  }

  async function setShutdown(autoShutdown: boolean): Promise<void> {
    const client = host.agent.security()
    await call(client.setSecuritySettings.bind(client), { settings: { autoShutdown } }).finally(() => client.close())
  }

  /** Reads the alerts from the agent's journal, which also works while no agent runs. */
  function alerts(): AlertState[] {
    const db = new Database(join(instance.stateDir, 'journal.db'), { readonly: true })
    try {
      const texts = db.prepare<[], string>('SELECT alert FROM alerts').pluck().all()
      return texts.map((text) => JSON.parse(text) as AlertState)
    } finally {
      db.close()
    }
  }
  const alert = (): AlertState | undefined => alerts().find(({ guestUuid }) => guestUuid === uuid)
  const initOf = (guest: string): string | undefined => readInits(instance).get(names.get(guest) ?? '')
  const pidOf = async (guest: string): Promise<string> =>
    (await waitFor(() => initOf(guest), { what: 'it runs' })).split(':')[0]!

  async function beginScan(): Promise<void> {
    const args = ['-t', await pidOf(uuid), '-n', '/usr/bin/python3', '-c', scanner]
    scan = spawn('nsenter', args, { stdio: 'ignore' })
  }

  const reach = (action: AlertState['action']) =>
    waitFor(() => alerts().find((one) => one.guestUuid === uuid && one.action === action), {
      intervalMs: 10,
      what: () => `${action}; there is ${JSON.stringify(alerts())}\n${host.agent.logTail()}`,
    })

  it('causes an alert, and keeps running during the grace period', async () => {
    await beginScan()
    const { severity, type, targetIp, stopAtMs } = await reach('stop_pending')
    expect([severity, type, targetIp]).to.deep.equal(['critical', 'port_scan', outside])
    expect(stopAtMs - Date.now()).to.be.within(1, graceSeconds * 1000)
    expect(host.guest(uuid)).to.include({ status: 'running', policyBlocked: false })
  })

  it('keeps running until the planned end of the grace period even if the agent is killed', async () => {
    const { stopAtMs } = alert()!
    const init = await pidOf(uuid)
    host.disconnect()
    await host.agent.kill()
    expect(await pidOf(uuid)).to.equal(init)
    await host.start()
    expect(alert()).to.include({ action: 'stop_pending', stopAtMs })
    expect(await pidOf(uuid), 'the alert continues').to.equal(init)
  })

  it('is disconnected and stopped after the grace period, even if the agent is killed during the stop', async () => {
    const { stopAtMs } = alert()!
    await reach('stopped')
    host.disconnect()
    await host.agent.kill()
    expect(Date.now(), 'not before its end').to.be.at.least(stopAtMs)
    await host.start()
    await waitFor(() => initOf(uuid) === undefined, { what: 'its processes ended' })
    await waitFor(() => host.guest(uuid)?.status === 'stopped', { what: 'reported as stopped' })
    expect(host.guest(uuid)).to.include({ policyBlocked: true, policyReason: 'security: port_scan' })
    await pidOf(quiet)
    expect(host.guest(quiet)).to.include({ status: 'running', policyBlocked: false })
    expect(alerts().filter(({ guestUuid }) => guestUuid === quiet)).to.deep.equal([])
    scan?.kill('SIGKILL')
  })

  it('can be started after the stop only by callers who are allowed to lift the suspension', async () => {
    expect(await host.power('start', uuid)).to.equal('policy_blocked')
    expect(initOf(uuid)).to.equal(undefined)
    const operations = host.agent.operations()
    const order = { $case: 'start', value: { uuid, liftBlock: true } } as const
    const { operation } = await submit(operations, { operationId: randomUUID(), requestedBy: 'test', order })
    await operationDone(operations, operation!.id).finally(() => operations.close())
    await pidOf(uuid)
    await waitFor(() => host.guest(uuid)?.policyBlocked === false, { what: 'no block' })
    await reach('lifted')
  })

  it('is not stopped again for an earlier scan after the suspension has ended', async () => {
    const seen = alert()!.count
    const client = host.agent.security()
    for (let looks = 0; looks < 3; looks++) {
      await call(client.checkSecurity.bind(client), { uuid })
      expect(alert()).to.include({ action: 'lifted', count: seen })
    }
    client.close()
    expect(host.guest(uuid)).to.include({ status: 'running', policyBlocked: false })
  })

  it('keeps running if automatic stops are disabled during the grace period', async () => {
    await beginScan()
    await reach('stop_pending')
    await setShutdown(false)
    await reach('canceled')
    scan?.kill('SIGKILL')
    expect(host.guest(uuid)).to.include({ status: 'running', policyBlocked: false })
  })
})
