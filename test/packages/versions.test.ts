import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import { symlinkSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { machineApi } from '../support/host/machine-api.js'
import { SystemdMachine } from '../support/host/systemd-machine.js'
import { Repository } from '../support/packages/repository.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

/*
 * Tests the present and the previous version on one machine: each gateway with each agent, and each program on data
 * that the other version has written.
 */

/** The last commit of the previous version, from which its packages are built. */
const previousCommit = 'ce75429c93127bf2483248886d6cdedfa6b0f01d'
const versions = { previous: '0.9.0', present: '0.9.1' }

interface Guest {
  readonly status: string
  readonly ram_mb: number
}

describe('a gateway and an agent of different versions', function () {
  this.bail(true) // each test continues where the one before ended
  this.timeout(3_600_000) // building takes minutes, and far longer on a busy machine

  const scratch = scratchDirectory('btest-versions')
  const checkout = join(scratch.path, 'previous')
  let machine: SystemdMachine
  let firstProcess = ''
  const api = () => machineApi((...words) => machine.run(...words))

  before(async () => {
    execFileSync('git', ['worktree', 'prune'])
    execFileSync('git', ['worktree', 'add', '-q', '--detach', checkout, previousCommit])
    symlinkSync(resolve('node_modules'), join(checkout, 'node_modules'))
    const repository = new Repository(scratch.path)
    repository.publish(versions.previous, checkout)
    repository.publish(versions.present)
    machine = await SystemdMachine.create('btest-versions', { hasCheckout: false })
    await machine.start()
    repository.addTo(machine)
    install('berth-gateway', versions.previous)
    install('berth-agent', versions.previous)
    machine.run('berth-setup')
    await online()
    await create('first')
    firstProcess = processOf('first')
  })
  after(() => {
    machine?.destroy()
    execFileSync('git', ['worktree', 'remove', '--force', checkout])
    scratch.wipe()
  })

  const install = (name: string, version: string): string =>
    machine.run('apt-get', 'install', '-y', '--allow-downgrades', `${name}=${version}`)

  const online = () =>
    waitFor(() => api().tryAsk<{ status: string }[]>('/hosts')?.[0]?.status === 'online', { what: 'the host online' })

  async function create(name: string): Promise<void> {
    const body = { name, virtualization: 'lxc', template_id: 'debian-12', vcpu: 1, ram_mb: 128, disk_gb: 1 }
    const { task_id: task } = api().ask<{ task_id: string }>('/containers', { method: 'POST', body })
    await api().follow(task, 600_000)
  }

  /** Pid of the guest's first process in the machine. */
  const processOf = (name: string): string =>
    machine.run('sh', '-c', `pgrep -fo 'lxc.* ${name}\\b|${name}' | head -1`).trim()

  const guestOf = (name: string): Guest => api().ask<Guest>(`/containers/${name}`)

  /** A shell of the guest answers through the gateway. */
  function useConsole(name: string): void {
    const { ticket } = api().ask<{ ticket: string }>('/ssh-ticket', { method: 'POST', body: { container_name: name } })
    expect(machine.run('/usr/lib/berth/runtime/node', '-e', consoleScript, name, ticket)).to.include('answer=42')
  }

  const pairs = [
    { gateway: 'present', agent: 'previous', change: 'berth-gateway', guest: 'second' },
    { gateway: 'present', agent: 'present', change: 'berth-agent', guest: 'third' },
    { gateway: 'previous', agent: 'present', change: 'berth-gateway', guest: 'fourth' },
    { gateway: 'previous', agent: 'previous', change: 'berth-agent', guest: 'fifth' },
  ] as const

  for (const { gateway, agent, change, guest } of pairs)
    it(`work together: the ${gateway} gateway and the ${agent} agent`, async () => {
      install(change, versions[change === 'berth-gateway' ? gateway : agent])
      await online()
      expect(guestOf('first').status).to.equal('running')
      expect(processOf('first')).to.equal(firstProcess)
      await create(guest)
      useConsole('first')
      useConsole(guest)
      const { task_id: task } = api().ask<{ task_id: string }>(`/containers/${guest}/stop`, {
        method: 'POST',
        body: {},
      })
      await api().follow(task, 600_000)
      expect(guestOf(guest).status).to.equal('stopped')
    })
})

const consoleScript = `
const [name, ticket] = process.argv.slice(1)
const origin = 'http://127.0.0.1:8080'
const socket = new WebSocket('ws://127.0.0.1:8080/api/v1/ssh?container=' + name, {
  protocols: ['berth.console.v1', 'berth-ticket.' + ticket],
  headers: { origin },
})
socket.binaryType = 'arraybuffer'
let output = ''
socket.onmessage = ({ data }) => {
  if (typeof data === 'string') {
    if (data.includes('"ready"')) socket.send(new TextEncoder().encode('echo answer=$((40 + 2))\\n'))
    return
  }
  output += Buffer.from(data).toString()
  if (output.includes('answer=42')) { console.log(output); process.exit(0) }
}
socket.onclose = ({ code, reason }) => { console.error(code, reason, output); process.exit(1) }
socket.onerror = (event) => { console.error(event.message) ; process.exit(1) }
`
