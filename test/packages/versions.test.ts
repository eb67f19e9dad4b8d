import { expect } from 'chai'
import { ResumingConsole } from '../support/gateway/resuming-console.js'
import { ResumingStream } from '../support/gateway/resuming-stream.js'
import { machineApi } from '../support/host/machine-api.js'
import { SystemdMachine } from '../support/host/systemd-machine.js'
import { documented } from '../support/packages/documented.js'
import { PackagedHost } from '../support/packages/packaged-host.js'
import { buildPrevious } from '../support/packages/previous.js'
import { answerYes, Repository, serveHosts, testBridge } from '../support/packages/repository.js'
import { raiseJournal, ServedPackages } from '../support/packages/served.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

/*
 * Combines the present version with the previous one, whose packages are built from its own sources: each gateway with
 * each agent, and each program with data that the other version has written.
 */

const network = testBridge('btestvr0', '10.213.22.0/24')
const addresses = { gateway: '10.213.22.1', host: '10.213.22.2' }
const url = `http://${addresses.gateway}:8080`
const versions = { previous: '0.8.0', present: '0.9.0' } as const
const upgrades = 'docs/upgrades.md'

describe('a gateway and an agent of different versions', function () {
  this.bail(true) // each test continues where the one before ended
  this.timeout(3_600_000) // building takes minutes, and far longer on a busy machine

  const scratch = scratchDirectory('btest-versions')
  const repository = new Repository(scratch.path)
  const served = new ServedPackages(repository, scratch.path)
  let gateway: SystemdMachine
  let machine: SystemdMachine
  let host: PackagedHost
  let key = ''
  let stream: ResumingStream | undefined
  let firstConsole: ResumingConsole | undefined
  const guests: string[] = []
  let processes: string[] = []

  const api = () => machineApi((...words) => gateway.run(...words))
  const apt = (command: string, version = ''): string =>
    gateway.run('sh', '-c', `(${command.replaceAll('VERSION', version)}) </dev/null 2>&1`)

  before(async () => {
    repository.publishFrom(buildPrevious(versions.previous, scratch.path))
    repository.publish(versions.present)
    network.create()
    const create = (name: string, address: string) =>
      SystemdMachine.create(name, { hasCheckout: false, network: { bridge: network.name, address: `${address}/24` } })
    gateway = await create('btest-ver-gateway', addresses.gateway)
    machine = await create('btest-ver-host', addresses.host)
    await Promise.all([gateway.start(), machine.start()])
  })
  afterEach(function () {
    if (this.currentTest?.state !== 'failed') return
    console.log(gateway.try('journalctl', '-u', 'berth-gateway', '-n', '40', '--no-pager', '-o', 'cat').output)
    console.log(machine.try('journalctl', '-u', 'berth-*', '-n', '60', '--no-pager', '-o', 'cat').output)
  })
  after(() => {
    stream?.stop()
    firstConsole?.stop()
    gateway?.destroy()
    machine?.destroy()
    network.remove()
    scratch.wipe()
  })

  async function installPrevious(): Promise<void> {
    repository.addTo(gateway)
    answerYes(gateway)
    apt('apt-get install berth-gateway=VERSION berth-repository=VERSION', versions.previous)
    gateway.run('sed', '-i', 's/^listen: .*/listen: 0.0.0.0:8080/', '/etc/berth/gateway.yaml')
    serveHosts(gateway, addresses.gateway)
    await waitFor(() => api().tryAsk('/hosts'), { what: 'the gateway' })
    key = gateway.run('cat', '/etc/berth/admin.key').trim()
    host = PackagedHost.add(api, machine, 'second')
    stream = new ResumingStream(url, { 'x-api-key': key })
    await waitFor(() => stream!.events.length > 0, { what: 'the event stream' })
  }

  /** Runs the documented API call that contains this path, with the id of this test's host. */
  function callAsDocumented(path: string): void {
    const call = documented(upgrades, path)
      .replace('https://berth.example', 'http://127.0.0.1:8080')
      .replaceAll(/\bID\b|h-0123456789/g, host.id)
    const answer = gateway.run('sh', '-c', `KEY=$(cat /etc/berth/admin.key)\n${call}`)
    expect((JSON.parse(answer) as { success: boolean }).success, answer).to.equal(true)
  }

  const gatewayVersion = (): string => api().ask<{ version: string }>('/version').version

  /** Creates a guest, receives its event, and uses consoles. Checks that earlier guests and consoles continue. */
  async function expectToWork(guest: string, of: { gateway: string; agent: string }): Promise<void> {
    await waitFor(() => api().tryAsk('/hosts'), { what: 'the gateway' })
    await host.waitUntilOnline(of.agent)
    expect(gatewayVersion()).to.equal(of.gateway)
    expect(host.guestProcesses()).to.include.members(processes)
    await host.createGuest(guest)
    guests.push(guest)
    const missing = (): string => `the event about ${guest}: ${JSON.stringify([stream!.failures, stream!.events])}`
    await waitFor(() => eventsAbout(guest).includes('guest.created'), { what: missing })
    for (const name of guests)
      expect(api().ask<{ status: string }>(`/containers/${name}`).status, name).to.equal('running')
    const opened = await ResumingConsole.open(url, key, guest)
    await opened.answers('opened')
    opened.stop()
    firstConsole ??= await ResumingConsole.open(url, key, guest)
    await waitFor(() => !firstConsole!.client.closed, { what: 'the first console', timeoutMs: 600_000 })
    await firstConsole.answers(guest)
    processes = host.guestProcesses()
    expect(processes).to.have.length(guests.length)
  }

  const eventsAbout = (guest: string): (string | undefined)[] =>
    stream!.events.filter(({ data }) => data.data?.['name'] === guest).map(({ data }) => data.type)

  it('both have the previous version at first, and work together', async () => {
    await installPrevious()
    await expectToWork('one', { gateway: versions.previous, agent: versions.previous })
  })

  it('refuse the upgrade of a host if the packages of the gateway have another version', async () => {
    apt('apt-get install --only-upgrade berth-gateway')
    await waitFor(() => api().tryAsk('/hosts'), { what: 'the gateway' })
    await host.waitUntilOnline()
    expect(() => api().ask(`/hosts/${host.id}/upgrade`, { method: 'POST', body: {} })).to.throw(
      `the packages for hosts have version ${versions.previous}, but this gateway has ${versions.present}: ` +
        `install the package berth-repository of version ${versions.present} on the machine of the gateway`,
    )
  })

  it('work together if only the gateway was upgraded', async () => {
    apt(documented(upgrades, '--only-upgrade berth-gateway berth-repository'))
    await expectToWork('two', { gateway: versions.present, agent: versions.previous })
  })

  it('are both upgraded to the present version', async () => {
    callAsDocumented('/api/v1/hosts/ID/upgrade')
    expect((await host.waitForUpgrade()).upgrade, host.journal()).to.include({ state: 'done' })
    await expectToWork('three', { gateway: versions.present, agent: versions.present })
  })

  it('work together after a downgrade of the gateway, with the data of the newer gateway', async () => {
    apt(documented(upgrades, '--allow-downgrades berth-gateway='), versions.previous)
    await expectToWork('four', { gateway: versions.previous, agent: versions.present })
  })

  it('refuse to replace the agent by an older agent from the gateway', async () => {
    const { upgrade, version } = await host.upgrade()
    expect(upgrade?.state, host.journal()).to.equal('failed')
    expect(upgrade?.message).to.include(
      `offers version ${versions.previous} of the agent, which is older than the installed version ${versions.present}: ` +
        'an upgrade never installs an older version',
    )
    expect(version).to.equal(versions.present)
  })

  it('work together after a rollback of the agent, with the data of the newer agent', async () => {
    expect((await host.upgrade({ rollback: true })).upgrade, host.journal()).to.include({ state: 'done' })
    await expectToWork('five', { gateway: versions.previous, agent: versions.previous })
  })

  it('install the present agent again if a rollback fails because the previous agent cannot read the journal', async () => {
    apt(documented(upgrades, '--only-upgrade berth-gateway berth-repository'))
    await host.waitUntilOnline(versions.previous)
    served.serve(gateway, versions.present, { change: raiseJournal })
    callAsDocumented('/api/v1/fleet/upgrade')
    const run = () => api().ask<{ state: string; hosts: { state: string }[] }>('/fleet/upgrade')
    await waitFor(() => run().state !== 'running', { timeoutMs: 900_000, intervalMs: 500, what: 'the fleet' })
    expect(run().hosts.map(({ state }) => state)).to.deep.equal(['done'])
    // Stops the console. The rollback takes longer than a disconnected terminal is kept (`consoles.keep_seconds`).
    firstConsole?.stop()
    firstConsole = undefined
    const { upgrade } = await host.upgrade({ rollback: true })
    expect(upgrade?.state, host.journal()).to.equal('failed')
    expect(upgrade?.message)
      .to.match(/the journal has version \d+, but this program only knows \d+: use a newer berth-agent/)
      .and.to.include(`version ${versions.present} is installed again`)
    await expectToWork('six', { gateway: versions.present, agent: versions.present })
  })
})
