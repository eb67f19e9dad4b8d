import { expect } from 'chai'
import { spawn, type ChildProcess } from 'node:child_process'
import { machineApi } from '../support/host/machine-api.js'
import { SystemdMachine } from '../support/host/systemd-machine.js'
import { Repository, serveHosts, testBridge } from '../support/packages/repository.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

/* Kills the command that adds a host, at each of its steps and while dpkg works. A second run must then succeed. */

const network = testBridge('btestpk2')
const addresses = { gateway: '10.213.9.1', host: '10.213.9.2' }

describe('the command that adds a host', function () {
  this.bail(true) // each test continues where the one before ended
  this.timeout(3_600_000) // building takes minutes, and far longer on a busy machine

  const scratch = scratchDirectory('btest-interruptions')
  let gateway: SystemdMachine
  let host: SystemdMachine
  let command = ''
  let id = ''
  const api = () => machineApi((...words) => gateway.run(...words))
  const stepNow = () => api().tryAsk<{ install: { step: string } | null }>(`/hosts/${id}`)?.install?.step

  const create = async (name: string, address: string): Promise<SystemdMachine> => {
    const options = { hasCheckout: false, network: { bridge: network.name, address: `${address}/24` } }
    const machine = await SystemdMachine.create(name, options)
    await machine.start()
    return machine
  }

  before(async () => {
    network.create()
    const repository = new Repository(scratch.path)
    repository.publish('0.9.1')
    gateway = await create('btest-int-gateway', addresses.gateway)
    host = await create('btest-int-host', addresses.host)
    repository.addTo(gateway)
    gateway.run('apt-get', 'install', '-y', 'berth-gateway')
    serveHosts(gateway, addresses.gateway)
    gateway.run('berth-setup')
    await waitFor(() => api().tryAsk('/hosts'), { what: 'the gateway' })
    const answer = api().ask<{ host: { id: string }; command: string }>('/hosts', {
      method: 'POST',
      body: { name: 'cut' },
    })
    id = answer.host.id
    command = answer.command
  })
  after(() => {
    gateway?.destroy()
    host?.destroy()
    network.remove()
    scratch.wipe()
  })

  /** Runs the command until the condition holds, then kills it with all its children. */
  async function killWhen(condition: () => boolean, what: string): Promise<void> {
    const running: ChildProcess = spawn(
      'lxc-attach',
      host.attachArguments('setsid', '-w', 'sh', '-c', `: btest-run; ${command}`),
    )
    const ended = new Promise<void>((resolve) => running.once('exit', () => resolve()))
    await waitFor(() => condition() || running.exitCode !== null, { what, intervalMs: 20 })
    killSession()
    await ended
  }

  /** Kills the session of the command, which also contains curl, apt and dpkg. */
  const killSession = () => host.try('sh', '-c', 'for p in $(pgrep -f btest-ru[n]); do pkill -KILL -s "$p"; done; true')

  for (const step of ['checking', 'installing', 'joining', 'waiting'])
    it(`can be repeated if it is killed in the step "${step}"`, async () => {
      await killWhen(() => stepNow() === step, `the step ${step}`)
    })

  for (const file of ['berth-runtime', 'berth-agent'])
    it(`can be repeated if it is killed while dpkg unpacks ${file}`, async () => {
      const state = () => host.try('dpkg-query', '-W', '-f', '${db:Status-Abbrev}', file).output
      await killWhen(() => /^i[HUF]/.test(state()) || /R$/.test(state()), `dpkg to unpack ${file}`)
    })

  it('adds the host when it is repeated after several kills', () => {
    const { code, output, error } = host.try('sh', '-c', command)
    expect(code, output + error).to.equal(0)
    expect(api().ask(`/hosts/${id}`)).to.include({ status: 'online' })
  })

  it('can be repeated if the power fails during dpkg and `dpkg --configure -a` has run', async () => {
    const running = spawn('lxc-attach', host.attachArguments('sh', '-c', command), { stdio: 'ignore' })
    const state = () => host.try('dpkg-query', '-W', '-f', '${db:Status-Abbrev}', 'berth-agent').output
    await waitFor(() => /^i[HUF]/.test(state()) || running.exitCode !== null, { what: 'dpkg to work', intervalMs: 20 })
    host.cutPower()
    await host.start()
    const { code, output, error } = host.try('dpkg', '--configure', '-a')
    expect(code, output + error).to.equal(0)
    const again = host.try('sh', '-c', command)
    expect(again.code, again.output + again.error).to.equal(0)
    await waitFor(() => api().tryAsk<{ status: string }>(`/hosts/${id}`)?.status === 'online', {
      what: 'the host online',
    })
  })
})
