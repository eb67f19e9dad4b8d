import { expect } from 'chai'
import { machineApi } from '../support/host/machine-api.js'
import { checkout, SystemdMachine } from '../support/host/systemd-machine.js'
import { documented } from '../support/packages/documented.js'
import { answerYes, Repository, serveHosts, testBridge } from '../support/packages/repository.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

/*
 * Replaces installations from a checkout by packages: a machine with its own gateway, and a host of that gateway. Guests
 * keep running.
 */

const network = testBridge('btestcv0')
const addresses = { gateway: '10.213.24.1', host: '10.213.24.2' }
const page = 'docs/checkout.md'
const version = '0.9.1'

describe('an installation from a checkout that was converted to packages', function () {
  this.bail(true) // each test continues where the one before ended
  this.timeout(3_600_000) // building takes minutes, and far longer on a busy machine

  const scratch = scratchDirectory('btest-conversion')
  const repository = new Repository(scratch.path)
  let machine: SystemdMachine
  let host: SystemdMachine
  let ownId = ''
  let hostId = ''
  let key = ''
  let processes = ''

  const api = () => machineApi((...words) => machine.run(...words))
  const shell = (script: string, at = machine): string => at.run('sh', '-c', `set -e; exec </dev/null 2>&1\n${script}`)
  /** Pids of the guest's monitor and first process. */
  const findGuest = (at = machine): string =>
    at.run('sh', '-c', 'monitor=$(pgrep -f "^\\[lxc monitor\\]"); echo "$monitor $(pgrep -P "$monitor")"').trim()
  const isOnline = (id: string, version: string): boolean => {
    const row = api().tryAsk<{ status: string; version: string }>(`/hosts/${id}`)
    return row?.status === 'online' && row.version === version
  }
  const waitUntilOnline = (id: string, version: string) =>
    waitFor(() => isOnline(id, version), { what: 'the host online', timeoutMs: 600_000, intervalMs: 500 })

  before(async () => {
    repository.publish(version)
    network.create()
    const create = (name: string, address: string) =>
      SystemdMachine.create(name, { network: { bridge: network.name, address: `${address}/24` } })
    machine = await create('btest-conv-gateway', addresses.gateway)
    host = await create('btest-conv-host', addresses.host)
    await Promise.all([machine.start(), host.start()])
    repository.copyTo(machine)
    repository.copyTo(host)
    answerYes(machine)
  })
  after(() => {
    machine?.destroy()
    host?.destroy()
    network.remove()
    scratch.wipe()
  })

  async function follow(path: string, body: object): Promise<void> {
    const { task_id: task } = api().ask<{ task_id: string }>(path, { method: 'POST', body })
    await api().follow(task, 600_000)
  }

  async function createGuest(name: string, on: string): Promise<void> {
    const size = { vcpu: 1, ram_mb: 128, disk_gb: 1 }
    await follow('/containers', { name, host_id: on, virtualization: 'lxc', template_id: 'debian-12', ...size })
  }

  const expectPackagedUnits = (at: SystemdMachine, units: readonly string[]): void => {
    expect(at.run('systemctl', 'list-units', '--failed', '--plain', '--no-legend').trim()).to.equal('')
    for (const unit of units) {
      expect(at.run('systemctl', 'show', '-P', 'FragmentPath', unit).trim()).to.match(/^\/(usr\/)?lib\/systemd/)
      expect(at.run('systemctl', 'is-enabled', unit).trim()).to.equal('enabled')
    }
  }

  it('begins with a running guest', async () => {
    machine.run('bash', `${checkout}/scripts/up`, '--no-kvm')
    ownId = api().ask<{ id: string }[]>('/hosts')[0]!.id
    await createGuest('guest', ownId)
    key = machine.run('cat', '/etc/berth/admin.key')
    processes = findGuest()
    expect(processes).to.match(/^\d+ \d+$/)
  })

  it('is not overwritten by the packages before scripts/down has run', () => {
    const { code, output, error } = machine.try('sh', '-c', `set -e; exec </dev/null\n${repository.installation()}`)
    expect(code).not.to.equal(0)
    expect(output + error).to.include('Berth is installed from a checkout on this machine. Run scripts/down there')
    expect(findGuest()).to.equal(processes)
    expect(api().ask<{ status: string }>(`/hosts/${ownId}`).status).to.equal('online')
  })

  it('is replaced by the packages after the documented steps, but keeps its keys, data and running guest', async () => {
    shell(`cd ${checkout}\n${documented(page, 'rm -r /opt/berth')}`)
    expect(findGuest()).to.equal(processes)
    shell(documented(page, '--fix-broken'))
    shell(repository.installation())
    await waitUntilOnline(ownId, version)
    expect(findGuest()).to.equal(processes)
    expect(machine.run('cat', '/etc/berth/admin.key')).to.equal(key)
    expect(api().ask<{ status: string }>('/containers/guest').status).to.equal('running')
    expectPackagedUnits(machine, ['berth-agent', 'berth-gateway', 'berth-guests'])
  })

  it('can still stop and start its guest', async () => {
    await follow('/containers/guest/stop', {})
    await follow('/containers/guest/start', {})
    processes = findGuest()
    expect(processes).to.match(/^\d+ \d+$/)
  })

  it('can be a host of a gateway that was installed from packages', async () => {
    serveHosts(machine, addresses.gateway)
    await waitFor(() => api().tryAsk('/hosts'), { what: 'the gateway' })
    const body = { name: 'checkout', address: `${addresses.host}:7443` }
    const added = api().ask<{ host: { id: string }; join_token: string }>('/hosts', { method: 'POST', body })
    hostId = added.host.id
    const commands = documented('docs/hosts.md', 'agent.example.yaml')
      .replace('192.0.2.2', addresses.host)
      .replace('TOKEN', added.join_token)
      .replace('./scripts/up', './scripts/up --no-kvm')
    shell(`cd ${checkout}\n${commands}`, host)
    const isThere = (): boolean => api().tryAsk<{ status: string }>(`/hosts/${hostId}`)?.status === 'online'
    await waitFor(isThere, { what: 'the host online', timeoutMs: 600_000 })
    await createGuest('other', hostId)
  })

  it('is replaced by the packages of its gateway while the guest keeps running', async () => {
    const guest = findGuest(host)
    shell(`cd ${checkout}\n${documented(page, 'rm -r /opt/berth')}`, host)
    const { command } = api().ask<{ command: string }>(`/hosts/${hostId}/join-token`, { method: 'POST', body: {} })
    shell(command, host)
    await waitUntilOnline(hostId, version)
    expect(findGuest(host)).to.equal(guest)
    expect(api().ask<{ status: string }>('/containers/other').status).to.equal('running')
    expectPackagedUnits(host, ['berth-agent', 'berth-guests'])
  })

  it('keeps its guests and data when the packages are removed', () => {
    shell('apt-get purge berth-gateway\napt-get remove berth-agent')
    expect(findGuest()).to.equal(processes)
    expect(machine.run('ls', '/var/lib/berth/gateway')).not.to.equal('')
  })
})
