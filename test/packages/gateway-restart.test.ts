import { expect } from 'chai'
import { setTimeout as delay } from 'node:timers/promises'
import { apiCall } from '../support/gateway/api-call.js'
import { RequestLoad } from '../support/gateway/request-load.js'
import { ResumingConsole } from '../support/gateway/resuming-console.js'
import { ResumingStream } from '../support/gateway/resuming-stream.js'
import { machineApi } from '../support/host/machine-api.js'
import { SystemdMachine } from '../support/host/systemd-machine.js'
import { Repository, testBridge } from '../support/packages/repository.js'
import { deadlineOf } from '../support/promised-time.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

/*
 * Tests that no request to a gateway fails while it is upgraded, restarted or killed. The clients run outside of its
 * machine, and reach it over a bridge.
 */

const [subnet, address] = ['10.213.8.0/24', '10.213.8.1']
const bridge = testBridge('btestpk1', subnet)
const versions = { first: '0.9.1', second: '0.9.2' }
const [url, tlsUrl] = [`http://${address}:8080`, `https://${address}`]
const clients = { requestsPerSecond: 200, streams: 20, consoles: 5 }
const consoleWithinMs = 3000
const guest = 'guest'

describe('clients of a gateway', function () {
  this.bail(true) // each test continues where the one before ended
  this.timeout(3_600_000) // building takes minutes, and far longer on a busy machine

  const scratch = scratchDirectory('btest-packages-restart')
  let machine: SystemdMachine
  let key = ''
  let streams: ResumingStream[] = []
  let consoles: ResumingConsole[] = []
  let changes = 0

  const api = () => machineApi((...words) => machine.run(...words))
  const mainPid = () => machine.run('systemctl', 'show', '-p', 'MainPID', '--value', 'berth-gateway').trim()

  before(async () => {
    const repository = new Repository(scratch.path)
    for (const version of Object.values(versions)) repository.publish(version)
    bridge.create()
    const network = { bridge: bridge.name, address: `${address}/24` }
    machine = await SystemdMachine.create('btest-pkg-restart', { hasCheckout: false, network })
    await machine.start()
    repository.addTo(machine)
    // The package berth is not installed, because it would upgrade the agent together with the gateway.
    const names = ['berth-gateway', 'berth-agent'].map((name) => `${name}=${versions.first}`)
    machine.run('apt-get', 'install', '-y', ...names)
    machine.run('berth-setup')
    machine.run('sed', '-i', 's/^listen: .*/listen: 0.0.0.0:8080/', '/etc/berth/gateway.yaml')
    machine.run('systemctl', 'restart', 'berth-gateway')
    await waitFor(() => api().tryAsk<{ status: string }[]>('/hosts')?.[0]?.status === 'online', { what: 'the host' })
    key = machine.run('cat', '/etc/berth/admin.key').trim()
    api().ask('/ssl', { method: 'PUT', body: { mode: 'self_signed', target: address } })
    const sizes = { vcpu: 1, ram_mb: 128, disk_gb: 1 }
    const body = { name: guest, virtualization: 'lxc', template_id: 'debian-12', ...sizes }
    await api().follow(api().ask<{ task_id: string }>('/containers', { method: 'POST', body }).task_id)
    streams = Array.from({ length: clients.streams }, () => new ResumingStream(url, { 'x-api-key': key }))
    for (let n = 0; n < clients.consoles; n++) consoles.push(await ResumingConsole.open(url, key, guest))
  })
  afterEach(function () {
    if (this.currentTest?.state === 'failed') console.log(journal())
  })
  after(() => {
    for (const client of [...streams, ...consoles]) client.stop()
    machine?.destroy()
    bridge.remove()
    scratch.wipe()
  })

  /** The log of the units without the lines about successful requests. */
  function journal(): string {
    const lines = machine.run('journalctl', '-u', 'berth-*', '-o', 'short-precise', '--no-pager').split('\n')
    return lines
      .filter((line) => !line.includes('"status":200'))
      .slice(-150)
      .join('\n')
  }

  /** Changes the guest's expiry repeatedly. Each change causes one event. @returns the expiry times */
  async function changeUntil(isOver: () => boolean): Promise<string[]> {
    const made: string[] = []
    while (!isOver()) {
      const time = new Date(Date.UTC(2040, 0, 1) + 1000 * ++changes).toISOString().slice(0, 19).replace('T', ' ')
      const headers = { 'x-api-key': key, 'content-type': 'application/json' }
      const body = JSON.stringify({ expires_at: time })
      const { status, text } = await apiCall(url, ['PUT', `/api/v1/containers/${guest}/expiry`], { headers, body })
      expect(status, text).to.equal(200)
      made.push(time)
      await delay(20)
    }
    return made
  }

  const timesIn = ({ events }: ResumingStream): string[] =>
    events.filter(({ data }) => data.type === 'guest.updated').map(({ data }) => String(data.data?.['expires_at']))

  /** Runs an action under load. @param act must return at once @param mayCut whether requests in progress may fail */
  async function expectNoFailure(act: () => void, mayCut = false): Promise<void> {
    const former = mainPid()
    const load = new RequestLoad({
      url,
      tlsUrl,
      path: '/api/v1/containers',
      headers: { 'x-api-key': key },
      perSecond: clients.requestsPerSecond,
    })
    let isOver = false
    const changing = mayCut ? Promise.resolve([]) : changeUntil(() => isOver)
    await delay(2000)
    act()
    await waitFor(() => !['0', former].includes(mainPid()), { intervalMs: 500, what: 'another process' })
    await delay(8000)
    isOver = true
    const times = await changing
    await load.stop()
    await waitFor(() => consoles.every(({ gapsMs }) => gapsMs.length > 0), { what: 'all consoles' })
    const gapsMs = consoles.map(({ gapsMs: [gapMs = Infinity] }) => Math.round(gapMs))
    console.log({ done: load.done, slowestMs: Math.round(load.slowestMs), gapsMs, changes: times.length })
    const inProgress = load.failures.filter((text) => /ECONNRESET|socket hang up/.test(text))
    expect(load.failures).to.deep.equal(mayCut ? inProgress : [])
    for (const stream of streams) {
      await waitFor(() => times.every((time) => timesIn(stream).includes(time)), { what: 'all events' })
      expect(stream.failures).to.deep.equal([])
      expect(stream.events.map(({ event }) => event)).not.to.include('reset')
      expect(stream.connections).to.equal(2)
    }
    for (const each of consoles) await each.answers(`after${changes}`)
    expect(Math.max(...gapsMs)).to.be.below(deadlineOf(consoleWithinMs))
    await reopen()
  }

  async function reopen(): Promise<void> {
    for (const client of [...streams, ...consoles]) client.stop()
    streams = Array.from({ length: clients.streams }, () => new ResumingStream(url, { 'x-api-key': key }))
    consoles = []
    for (let n = 0; n < clients.consoles; n++) consoles.push(await ResumingConsole.open(url, key, guest))
  }

  it('notice only a delay when the gateway restarts', () =>
    expectNoFailure(() => machine.run('systemctl', '--no-block', 'restart', 'berth-gateway')))

  it('notice only a delay when the packages are upgraded', async () => {
    await expectNoFailure(() =>
      machine.run('systemd-run', '--collect', 'apt-get', 'install', '-y', 'berth-gateway', 'berth-agent'),
    )
    expect(machine.run('dpkg-query', '-W', '-f', '${Version}', 'berth-gateway')).to.equal(versions.second)
  })

  it('lose only unfinished requests if the gateway is killed', () =>
    expectNoFailure(() => machine.run('systemctl', 'kill', '-s', 'KILL', '--kill-whom=main', 'berth-gateway'), true))
})
