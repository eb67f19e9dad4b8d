import { expect } from 'chai'
import { machineApi } from '../support/host/machine-api.js'
import { SystemdMachine } from '../support/host/systemd-machine.js'
import { documented } from '../support/packages/documented.js'
import { PackagedHost } from '../support/packages/packaged-host.js'
import { answerYes, Repository } from '../support/packages/repository.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

/* Runs the commands of docs/upgrades.md for a machine that has both the gateway and the agent. */

const page = 'docs/upgrades.md'
const [first, second] = ['0.9.1', '0.9.2'] as const

describe('a single machine with gateway and agent', function () {
  this.bail(true) // each test continues where the one before ended
  this.timeout(3_600_000) // building takes minutes, and far longer on a busy machine

  const scratch = scratchDirectory('btest-single')
  const repository = new Repository(scratch.path)
  let machine: SystemdMachine
  let host: PackagedHost
  let processes: string[] = []

  const api = () => machineApi((...words) => machine.run(...words))
  const apt = (command: string): string =>
    machine.run('sh', '-c', `(${command.replaceAll('VERSION', first)}) </dev/null 2>&1`)

  before(async () => {
    repository.publish(first)
    machine = await SystemdMachine.create('btest-sgl-machine', { hasCheckout: false })
    await machine.start()
  })
  after(() => {
    machine?.destroy()
    scratch.wipe()
  })

  async function expectVersion(version: string): Promise<void> {
    await waitFor(() => api().tryAsk<{ version: string }>('/version')?.version === version, {
      what: `the gateway of version ${version}`,
    })
    await host.waitUntilOnline(version)
    expect(host.guestProcesses()).to.deep.equal(processes)
    expect(machine.run('systemctl', 'list-units', '--failed', '--plain', '--no-legend').trim()).to.equal('')
  }

  it('runs a guest with the older version, which is upgraded later', async () => {
    repository.addTo(machine)
    answerYes(machine)
    apt('apt-get install berth')
    const findHost = (): string | undefined => api().tryAsk<{ id: string }[]>('/hosts')?.[0]?.id
    const id = await waitFor(findHost, { what: 'the host of the machine' })
    host = new PackagedHost(api, machine, id)
    await host.waitUntilOnline(first)
    await host.createGuest('guest')
    processes = host.guestProcesses()
    expect(processes).to.have.length(1)
  })

  it('has the newer gateway and agent after the documented upgrade, while the guest keeps running', async () => {
    repository.publish(second)
    repository.addTo(machine)
    apt(documented(page, '--only-upgrade berth berth-repository'))
    await expectVersion(second)
  })

  it('has the older gateway and agent again after the documented downgrade, while the guest keeps running', async () => {
    apt(documented(page, '--allow-downgrades berth='))
    await expectVersion(first)
    await host.createGuest('later')
  })
})
