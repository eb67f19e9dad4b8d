import { expect } from 'chai'
import { readFileSync } from 'node:fs'
import { machineApi } from '../support/host/machine-api.js'
import { SystemdMachine } from '../support/host/systemd-machine.js'
import { answerYes, Repository, serveHosts, testBridge } from '../support/packages/repository.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

/*
 * Installs the packages on two machines, and joins both gateways to one fleet with the documented commands. The store
 * is a Redis server on the first machine.
 */

const network = testBridge('btestpk6')
const addresses = { first: '10.213.26.1', second: '10.213.26.2' }
const page = readFileSync('docs/gateways.md', 'utf8')

interface GatewayRow {
  readonly id: string
  readonly name: string
  readonly state: string
  readonly answers: boolean
}

describe('gateways from the packages', function () {
  this.bail(true) // each test continues where the one before ended
  this.timeout(3_600_000) // building takes minutes, and far longer on a busy machine

  const scratch = scratchDirectory('btest-package-gateways')
  const repository = new Repository(scratch.path)
  let first: SystemdMachine
  let second: SystemdMachine
  const apiOf = (machine: SystemdMachine) => machineApi((...words) => machine.run(...words))
  const hostsOf = (machine: SystemdMachine): string[] | undefined =>
    apiOf(machine)
      .tryAsk<{ name: string }[]>('/hosts')
      ?.map(({ name }) => name)
  const gatewaysOf = (machine: SystemdMachine): GatewayRow[] => apiOf(machine).tryAsk<GatewayRow[]>('/gateways') ?? []

  before(async () => {
    repository.publish('0.9.1')
    network.create()
    for (const [name, address] of Object.entries(addresses)) {
      const options = { hasCheckout: false, network: { bridge: network.name, address: `${address}/24` } }
      const machine = await SystemdMachine.create(`btest-pgw-${name}`, options)
      await machine.start()
      repository.addTo(machine)
      answerYes(machine)
      machine.run('apt-get', 'install', '-y', 'berth-gateway')
      serveHosts(machine, address)
      await waitFor(() => hostsOf(machine), { what: 'the gateway' })
      if (name === 'first') first = machine
      else second = machine
    }
  })
  after(() => {
    first?.destroy()
    second?.destroy()
    network.remove()
    scratch.wipe()
  })

  /** Runs the documented command that begins with this text. */
  function runDocumented(machine: SystemdMachine, beginning: string): void {
    const command = page.split('\n').find((line) => line.trim().startsWith(beginning))
    expect(command, beginning).to.be.a('string')
    machine.run('sh', '-c', command!)
  }

  it('keep their data during the documented move of their store to the operator’s Redis server', async () => {
    apiOf(first).ask('/hosts', { method: 'POST', body: { name: 'early', address: '192.0.2.1:7443' } })
    runDocumented(first, 'systemctl stop berth-gateway')
    first.run('systemctl', 'stop', 'redis-server')
    const settings = `bind ${addresses.first}\nappendonly yes\nappendfsync always\nprotected-mode no\n`
    first.run('sh', '-c', `echo '${settings}' >>/etc/redis/redis.conf`)
    for (const command of ['cp -a', 'chown -R', 'systemctl start redis-server']) runDocumented(first, command)
    const url = `redis://${addresses.first}:6379`
    first.run('sed', '-i', `/^redis:/,/^  url:/s|^  url: .*|  url: ${url}|`, '/etc/berth/gateway.yaml')
    runDocumented(first, 'systemctl start berth-gateway')
    await waitFor(() => hostsOf(first)?.includes('early'), { what: 'the host in the moved store' })
  })

  it('serve one fleet after the second gateway has joined with the documented command', async () => {
    const { command } = apiOf(first).ask<{ command: string }>('/gateways', {
      method: 'POST',
      body: { name: 'second' },
    })
    const output = second.run('sh', '-c', command)
    expect(output).to.contain('this machine is the gateway second of the fleet')
    // A join does not copy the administrator's key of the first machine to the second one. The test copies this key.
    second.run('sh', '-c', `printf '%s' '${first.run('cat', '/etc/berth/admin.key').trim()}' >/etc/berth/admin.key`)
    expect(hostsOf(second)).to.deep.equal(['early'])
    await waitFor(() => gatewaysOf(second).filter(({ state }) => state === 'online').length === 2, { what: 'both' })
    const owner = second.run('stat', '-c', '%U', '/var/lib/berth/gateway/secret', '/var/lib/berth/gateway/store').trim()
    expect(new Set(owner.split('\n'))).to.deep.equal(new Set(['berth']))
  })

  it('keep their id and name after a restart', async () => {
    const own = gatewaysOf(second).find(({ answers }) => answers)!
    second.run('systemctl', 'restart', 'berth-gateway')
    await waitFor(() => hostsOf(second)?.includes('early'), { what: 'the restarted gateway' })
    expect(gatewaysOf(second).find(({ answers }) => answers)).to.include({ id: own.id, name: 'second' })
  })

  it('end when they are removed from the fleet, and systemd does not start them again', async () => {
    const { id } = gatewaysOf(first).find(({ name }) => name === 'second')!
    apiOf(first).ask(`/gateways/${id}`, { method: 'DELETE' })
    const state = (): string => second.try('systemctl', 'is-active', 'berth-gateway').output.trim()
    await waitFor(() => state() === 'failed', { what: state })
    expect(second.run('journalctl', '-u', 'berth-gateway', '-n', '20', '-o', 'cat')).to.contain('let it join again')
  })
})
