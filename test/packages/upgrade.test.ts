import { expect } from 'chai'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { machineApi, type MachineApi } from '../support/host/machine-api.js'
import { SystemdMachine } from '../support/host/systemd-machine.js'
import { Repository, testBridge, serveHosts } from '../support/packages/repository.js'
import { breakAgent, createForeignKeys, ServedPackages } from '../support/packages/served.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

/*
 * Upgrades a gateway and a host from packages to a second version. Both machines already have Debian's packages,
 * because they cannot download any.
 */

const network = testBridge('btestup0')
const addresses = { gateway: '10.213.21.1', host: '10.213.21.2' }
const [first, second] = ['0.9.1', '0.9.2'] as const
const slow = { timeoutMs: 600_000, intervalMs: 500 }

interface Upgrade {
  readonly state: string
  readonly step: string
  readonly message: string
}
interface HostRow {
  readonly id: string
  readonly name: string
  readonly status: string
  readonly version: string
  readonly outdated: boolean
  readonly previous_version: string
  readonly upgrade: Upgrade | null
}
interface Run {
  readonly state: string
  readonly hosts: readonly { readonly name: string; readonly state: string; readonly message: string }[]
}

describe('an upgrade of a host', function () {
  this.bail(true) // each test continues where the one before ended
  this.timeout(3_600_000) // building takes minutes, and far longer on a busy machine

  const scratch = scratchDirectory('btest-upgrade')
  const repository = new Repository(scratch.path)
  const served = new ServedPackages(repository, scratch.path)
  let gateway: SystemdMachine
  let host: SystemdMachine
  let hostId = ''
  let guestPid = ''

  const api = (): MachineApi => machineApi((...words) => gateway.run(...words))
  const row = (): HostRow => api().ask<HostRow>(`/hosts/${hostId}`)
  /** Pid and start of the first process of the guest. */
  const findGuest = (): string =>
    host
      .run('sh', '-c', 'ps -eo pid,lstart,args | grep "[l]xc monitor"; pgrep -P "$(pgrep -f "[l]xc monitor")" -a')
      .trim()
  /** Orders an upgrade and waits for its end. */
  async function upgrade(body: object = {}): Promise<HostRow> {
    api().ask(`/hosts/${hostId}/upgrade`, { method: 'POST', body })
    const ended = (): HostRow | undefined => {
      const now = api().tryAsk<HostRow>(`/hosts/${hostId}`)
      return now?.upgrade && now.upgrade.state !== 'running' ? now : undefined
    }
    const what = (): string => `the end of ${JSON.stringify(row().upgrade)}: ${journal()}`
    return waitFor(ended, { ...slow, what })
  }
  const journal = (): string => host.try('journalctl', '-u', 'berth-upgrade*', '-n', '40', '--no-pager').output

  /** Adds the host with the command line of the gateway, which follows the real installation until the host is online. */
  async function addHost(name: string): Promise<void> {
    const child = spawn('lxc-attach', gateway.attachArguments('berth', 'host', 'add', name))
    const text = { out: '', err: '' }
    child.stdout.setEncoding('utf8').on('data', (part: string) => (text.out += part))
    child.stderr.setEncoding('utf8').on('data', (part: string) => (text.err += part))
    const ended = once(child, 'close')
    await waitFor(() => text.out.endsWith('\n'), { what: () => `the command: ${text.err}` })
    const { code, output, error } = host.try('sh', '-c', text.out)
    expect(code, output + error).to.equal(0)
    expect((await ended)[0], text.err).to.equal(0)
    expect(text.err).to.contain(`add ${name}: done; `)
    expect(text.out).to.match(/^.*berth_jt_.*\n$/)
  }

  /** Checks that the guest's process is the same, berth-guests and berth-agent are active, and no unit has failed. */
  function expectUnaffected(): void {
    expect(findGuest()).to.equal(guestPid)
    expect(api().ask<{ status: string }>('/containers/guest').status).to.equal('running')
    const states = host.run('systemctl', 'is-active', 'berth-guests', 'berth-agent').trim().split('\n')
    expect(states).to.deep.equal(['active', 'active'])
    expect(host.run('systemctl', 'list-units', '--failed', '--plain', '--no-legend').trim()).to.equal('')
  }

  before(async () => {
    network.create()
    repository.publish(first)
    const create = (name: string, address: string) =>
      SystemdMachine.create(name, { hasCheckout: false, network: { bridge: network.name, address: `${address}/24` } })
    gateway = await create('btest-upg-gateway', addresses.gateway)
    host = await create('btest-upg-host', addresses.host)
    await Promise.all([gateway.start(), host.start()])
  })
  after(() => {
    gateway?.destroy()
    host?.destroy()
    network.remove()
    scratch.wipe()
  })

  it('begins with a gateway and a host of the first version, and a running guest', async () => {
    repository.addTo(gateway)
    gateway.run('sh', '-c', 'apt-get install -y berth </dev/null 2>&1')
    serveHosts(gateway, addresses.gateway)
    await waitFor(() => api().tryAsk('/hosts'), { what: 'the gateway' })
    await addHost('second')
    hostId = api()
      .ask<HostRow[]>('/hosts')
      .find(({ name }) => name === 'second')!.id
    const size = { vcpu: 1, ram_mb: 128, disk_gb: 1 }
    const body = { name: 'guest', host_id: hostId, virtualization: 'lxc', template_id: 'debian-12', ...size }
    // The request fails while the agent restarts at the end of the installation, so it is repeated.
    const submit = (): string | undefined =>
      api().tryAsk<{ task_id: string }>('/containers', { method: 'POST', body })?.task_id
    await api().follow(await waitFor(submit, { what: 'the creation', intervalMs: 500 }))
    guestPid = findGuest()
    expect(guestPid).not.to.equal('')
  })

  it('shows the host as outdated after the gateway has got the second version', async () => {
    execFileSync('scripts/repository', ['rotate', repository.keys], { stdio: 'ignore' })
    repository.publish(second)
    repository.addTo(gateway)
    gateway.run('sh', '-c', 'apt-get install -y --only-upgrade berth berth-repository </dev/null 2>&1')
    const isOutdated = (): boolean =>
      api().tryAsk<HostRow>(`/hosts/${hostId}`)?.outdated === true && row().status === 'online'
    await waitFor(isOutdated, { what: 'the outdated host' })
    expect(row()).to.include({ version: first, previous_version: '' })
  })

  it('refuses a tampered package, and keeps the installed version', async () => {
    const file = gateway.run('sh', '-c', 'ls /usr/share/berth/packages/berth-agent_*.deb').trim()
    gateway.run('dd', 'if=/dev/zero', `of=${file}`, 'bs=1', 'count=4', 'seek=5000', 'conv=notrunc')
    const { upgrade: ended, version, status } = await upgrade()
    expect(ended?.state, journal()).to.equal('failed')
    expect([version, status]).to.deep.equal([first, 'online'])
    expectUnaffected()
  })

  it('refuses packages if their list is signed with an unknown key', async () => {
    served.serve(gateway, second, { keys: createForeignKeys(scratch.path) })
    const { upgrade: ended, version } = await upgrade()
    expect(ended, journal()).to.include({ state: 'failed' })
    expect(ended?.message).to.include('checking the signature of the packages failed')
    expect(version).to.equal(first)
  })

  it('returns to the installed version if the new agent does not start', async () => {
    served.serve(gateway, second, { change: breakAgent })
    const { upgrade: ended } = await upgrade()
    expect(ended, journal()).to.include({ state: 'failed' })
    expect(ended?.message).to.include('this version is broken').and.to.include(`version ${first} is installed again`)
    await waitFor(() => row().status === 'online', { what: 'the host online' })
    expect(row()).to.include({ version: first, previous_version: '' })
    expectUnaffected()
  })

  it('installs the second version while the guest keeps running', async () => {
    served.serve(gateway, second)
    const { upgrade: ended } = await upgrade()
    expect(ended, journal()).to.include({ state: 'done', message: '' })
    expect(row()).to.include({ status: 'online', version: second, outdated: false, previous_version: first })
    expectUnaffected()
  })

  it('installs the new signing key on a host that knew only the former key', () => {
    const keyring = readFileSync(join(host.root, 'usr/share/keyrings/berth.gpg'))
    expect(keyring.equals(readFileSync(join(repository.keys, 'berth.gpg')))).to.equal(true)
  })

  it('never installs an older version from the gateway', () => {
    served.serve(gateway, first)
    const { join_token: token } = api().ask<{ join_token: string }>(`/hosts/${hostId}/join-token`, { method: 'POST' })
    const authority = gateway.run(
      'sh',
      '-c',
      "sed -n '/BEGIN CERT/,/END CERT/p' /var/lib/berth/gateway/pki/authority.pem",
    )
    const order = { address: `${addresses.gateway}:8081`, token, version: first, authority }
    host.run('mkdir', '-p', '/root/order')
    for (const [name, text] of Object.entries(order))
      host.run('sh', '-c', `cat > /root/order/${name} <<'END'\n${text}\nEND`)
    const { code, error } = host.try(
      'sh',
      '-c',
      'exec sh $(find /usr/lib/berth -path "*agent*/install.sh") --upgrade /root/order',
    )
    expect(code).to.equal(1)
    expect(error).to.include('an upgrade never installs an older version')
    expect(row().version).to.equal(second)
    served.serve(gateway, second)
  })

  it('returns to the first version on request, without packages from the gateway', async () => {
    gateway.run('mv', '/usr/share/berth/packages', '/root/packages')
    const { upgrade: ended } = await upgrade({ rollback: true })
    expect(ended, journal()).to.include({ state: 'done' })
    expect(row()).to.include({ status: 'online', version: first, outdated: true })
    // The agent reports with its next sample that it has no previous version any more.
    await waitFor(() => row().previous_version === '', { what: 'no previous version', intervalMs: 500 })
    expectUnaffected()
    gateway.run('mv', '/root/packages', '/usr/share/berth/packages')
  })

  it('can be requested, and rolled back, for all hosts of the fleet in one request', async () => {
    const run = (): Run => api().ask<Run>('/fleet/upgrade')
    const ended = (): boolean => !['running', 'paused'].includes(run().state)
    api().ask('/fleet/upgrade', { method: 'POST', body: { canary_host_id: hostId } })
    await waitFor(ended, { ...slow, what: () => JSON.stringify(run()) })
    expect(
      run().hosts.map(({ state }) => state),
      JSON.stringify(run()),
    ).to.deep.equal(['done', 'done'])
    expect(row()).to.include({ version: second, previous_version: first })
    api().ask('/fleet/upgrade/rollback', { method: 'POST', body: {} })
    await waitFor(ended, { ...slow, what: () => JSON.stringify(run()) })
    expect(run().hosts.find(({ name }) => name === 'second')?.state).to.equal('done')
    expect(row()).to.include({ version: first })
    expectUnaffected()
  })

  it('returns to the installed version if the power fails and the new agent does not start', async () => {
    served.serve(gateway, second, { change: breakAgent })
    api().ask(`/hosts/${hostId}/upgrade`, { method: 'POST', body: {} })
    await waitFor(() => row().upgrade?.step === 'waiting', { ...slow, what: 'the wait for the new agent' })
    host.cutPower()
    await host.start()
    await waitFor(() => row().upgrade?.state !== 'running', { ...slow, what: () => journal() })
    expect(row().upgrade?.message, journal()).to.include(`version ${first} is installed again`)
    await waitFor(() => row().status === 'online', { what: 'the host online' })
    expect(row()).to.include({ version: first, previous_version: '' })
    expect(host.try('ls', '/var/lib/berth/packages/pending').code).not.to.equal(0)
  })
})
