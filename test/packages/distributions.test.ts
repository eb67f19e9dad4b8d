import { expect } from 'chai'
import { machineApi } from '../support/host/machine-api.js'
import { SystemdMachine } from '../support/host/systemd-machine.js'
import type { Release } from '../support/host/systemd-root.js'
import { Repository, serveHosts, testBridge } from '../support/packages/repository.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

/*
 * Tests a gateway on Debian 12, from the package berth-gateway without an agent, and hosts with other distributions.
 */

const network = testBridge('btestpk3')
const gatewayAddress = '10.213.8.1'
const hosts: readonly { release: Release; name: string; address: string }[] = [
  { release: 'trixie', name: 'debian-13', address: '10.213.8.2' },
  { release: 'noble', name: 'ubuntu-24-04', address: '10.213.8.3' },
]

describe('the packages on other distributions', function () {
  this.bail(true) // each test continues where the one before ended
  this.timeout(3_600_000) // building takes minutes, and far longer on a busy machine

  const scratch = scratchDirectory('btest-distributions')
  const machines: SystemdMachine[] = []
  let gateway: SystemdMachine
  const api = () => machineApi((...words) => gateway.run(...words))

  const create = async (name: string, address: string, release?: Release): Promise<SystemdMachine> => {
    const machine = await SystemdMachine.create(`btest-dist-${name}`, {
      hasCheckout: false,
      network: { bridge: network.name, address: `${address}/24` },
      ...(release && { release }),
    })
    machines.push(machine)
    await machine.start()
    return machine
  }

  before(async () => {
    network.create()
    const repository = new Repository(scratch.path)
    repository.publish('0.9.1')
    gateway = await create('gateway', gatewayAddress)
    repository.addTo(gateway)
  })
  after(() => {
    for (const machine of machines) machine.destroy()
    network.remove()
    scratch.wipe()
  })

  it('install a gateway without an agent', async () => {
    gateway.run('apt-get', 'install', '-y', 'berth-gateway')
    serveHosts(gateway, gatewayAddress)
    expect(gateway.run('berth-setup')).to.match(/http:\/\/\S+\/setup#\S+/)
    await waitFor(() => api().tryAsk<unknown[]>('/hosts')?.length === 0, { what: 'a gateway without hosts' })
  })

  for (const { release, name, address } of hosts)
    describe(`on a host with ${name}`, () => {
      let machine: SystemdMachine
      let host = ''
      let command = ''

      before(async () => {
        machine = await create(name, address, release)
      })

      it('install the agent with the command from POST /hosts, and the host comes online', () => {
        const answer = api().ask<{ host: { id: string }; command: string }>('/hosts', {
          method: 'POST',
          body: { name },
        })
        host = answer.host.id
        command = answer.command
        const { code, output, error } = machine.try('sh', '-c', command)
        expect(code, output + error).to.equal(0)
        expect(api().ask(`/hosts/${host}`), output + error).to.include({ status: 'online', address: `${address}:7443` })
      })

      it('can run a guest', async () => {
        const body = {
          name,
          host_id: host,
          virtualization: 'lxc',
          template_id: 'debian-12',
          vcpu: 1,
          ram_mb: 128,
          disk_gb: 1,
        }
        const { task_id: task } = api().ask<{ task_id: string }>('/containers', { method: 'POST', body })
        await api().follow(task, 600_000)
        expect(api().ask<{ status: string }>(`/containers/${name}`).status).to.equal('running')
        expect(machine.run('systemctl', 'show', '-P', 'NRestarts', 'berth-agent').trim()).to.equal('0')
      })

      it('leave nothing of Berth behind when they are removed', () => {
        const { code, output, error } = machine.try('sh', '-c', command.replace(/berth_jt_\S+/, '--uninstall'))
        expect(code, output + error).to.equal(0)
        const search = 'find / -xdev -ipath "*berth*" -not -path "/proc/*" -not -path "/sys/*" | head'
        expect(machine.try('sh', '-c', search).output.trim()).to.equal('')
      })
    })
})
