import { expect } from 'chai'
import { spawn } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { machineApi } from '../support/host/machine-api.js'
import { SystemdMachine } from '../support/host/systemd-machine.js'
import { orderCommand, writeOrder } from '../support/packages/orders.js'
import { PackagedHost } from '../support/packages/packaged-host.js'
import { Repository, serveHosts, testBridge } from '../support/packages/repository.js'
import { ServedPackages } from '../support/packages/served.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

/*
 * Kills the upgrade and the rollback of an agent at each step, and cuts the power of the host. A second run must then
 * succeed. The guest keeps running, unless the power fails.
 */

const network = testBridge('btestpk4')
const addresses = { gateway: '10.213.23.1', host: '10.213.23.2' }
const [first, second] = ['0.9.1', '0.9.2'] as const
/** Programs with which the installation script changes something. In PATH, `killingProgram` comes before them. */
const programs = 'apt-get chmod cp curl dpkg find install ln mkdir mktemp mv rm sync systemctl touch'
const killing = '/root/killing'

/**
 * Program that kills the upgrade instead of running its Nth command, or the first command that begins with a text. N is
 * in the file `left`, the text in the file `wanted`. The commands that dpkg and apt run do not count.
 */
const killingProgram = `#!/bin/sh
program=/usr/bin/\${0##*/}
/usr/bin/tr '\\0' ' ' <"/proc/$PPID/cmdline" | /usr/bin/grep -q 'install\\.sh' || exec "$program" "$@"
exec 8>${killing}/lock
/usr/bin/flock 8
left=$(($(/usr/bin/cat ${killing}/left) - 1))
echo "$left" >${killing}/left
exec 8>&-
kill_upgrade() {
  echo "\${0##*/} $*" >${killing}/last
  /usr/bin/systemctl kill --signal=KILL berth-upgrade.service
  /usr/bin/sleep 60
}
[ "$left" -ne 0 ] || kill_upgrade "$@"
case "\${0##*/} $*" in "$(/usr/bin/cat ${killing}/wanted)"*) kill_upgrade "$@" ;; esac
exec "$program" "$@"
`

type Action = '--upgrade' | '--rollback'
const targets = { '--upgrade': second, '--rollback': first } as const

describe('upgrades and rollbacks that are interrupted', function () {
  this.bail(true) // each test continues where the one before ended
  this.timeout(3_600_000) // building takes minutes, and far longer on a busy machine

  const scratch = scratchDirectory('btest-upgrade-interruptions')
  const repository = new Repository(scratch.path)
  let gateway: SystemdMachine
  let machine: SystemdMachine
  let host: PackagedHost
  let processes: string[] = []
  const api = () => machineApi((...words) => gateway.run(...words))

  before(async () => {
    repository.publish(first)
    repository.publish(second)
    network.create()
    gateway = await create('btest-uint-gateway', addresses.gateway)
    machine = await create('btest-uint-host', addresses.host)
    repository.addTo(gateway)
    gateway.run('apt-get', 'install', '-y', 'berth-gateway', 'berth-repository')
    serveHosts(gateway, addresses.gateway)
    await waitFor(() => api().tryAsk('/hosts'), { what: 'the gateway' })
    const served = new ServedPackages(repository, scratch.path)
    served.serve(gateway, first)
    host = PackagedHost.add(api, machine, 'cut')
    served.serve(gateway, second)
    await host.createGuest('guest')
    processes = host.guestProcesses()
    expect(processes).to.have.length(1)
    placeKillingPrograms()
  })
  after(() => {
    gateway?.destroy()
    machine?.destroy()
    network.remove()
    scratch.wipe()
  })

  async function create(name: string, address: string): Promise<SystemdMachine> {
    const options = { hasCheckout: false, network: { bridge: network.name, address: `${address}/24` } }
    const created = await SystemdMachine.create(name, options)
    await created.start()
    return created
  }

  function placeKillingPrograms(): void {
    const directory = join(machine.root, killing, 'bin')
    mkdirSync(directory, { recursive: true })
    for (const name of programs.split(' ')) {
      writeFileSync(join(directory, name), killingProgram)
      chmodSync(join(directory, name), 0o755)
    }
  }

  const order = (action: Action): void =>
    writeOrder(gateway, machine, {
      address: `${addresses.gateway}:8081`,
      token: host.token,
      version: targets[action],
    })

  /**
   * Runs the upgrade or rollback, and kills it at a command.
   * @param at number of the command, or its beginning
   * @returns that command; "" if the upgrade or rollback ended before
   */
  function killAt(action: Action, at: number | string): string {
    const isNumber = typeof at === 'number'
    writeFileSync(join(machine.root, killing, 'left'), `${isNumber ? at : 0}\n`)
    writeFileSync(join(machine.root, killing, 'wanted'), `${isNumber ? 'no command' : at}\n`)
    writeFileSync(join(machine.root, killing, 'last'), '')
    const { code, output, error } = machine.try('sh', '-c', orderCommand(action, `${killing}/bin:`))
    const last = readFileSync(join(machine.root, killing, 'last'), 'utf8').trim()
    expect(code === 0, output + error).to.equal(last === '')
    return last
  }

  /** Starts the upgrade or rollback, and calls `interrupt` when the condition holds. */
  async function interruptWhen(action: Action, condition: () => boolean, interrupt: () => void): Promise<void> {
    const running = spawn('lxc-attach', machine.attachArguments('sh', '-c', `${orderCommand(action)} 2>&1`))
    let output = ''
    running.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    const ended = new Promise<void>((resolve) => running.once('exit', () => resolve()))
    await waitFor(() => condition() || running.exitCode !== null, {
      timeoutMs: 600_000,
      what: 'the moment to interrupt',
    })
    expect(running.exitCode, `the upgrade ended before it could be interrupted:\n${output}`).to.equal(null)
    interrupt()
    await ended
  }

  const kill = (): void => void machine.try('systemctl', 'kill', '--signal=KILL', 'berth-upgrade.service')
  const statusOf = (name: string): string =>
    machine.try('dpkg-query', '-W', '-f', '${db:Status-Abbrev}', name).output.trim()

  /** Runs the upgrade or rollback again, and expects that it succeeds. */
  async function repeat(action: Action): Promise<void> {
    const { code, output, error } = machine.try('sh', '-c', orderCommand(action))
    expect(code, output + error).to.equal(0)
    await host.waitUntilOnline(targets[action])
    expect(machine.run('dpkg', '--audit').trim()).to.equal('')
  }

  /** Expects that the guest still runs in the same processes. */
  const expectGuest = (): void => void expect(host.guestProcesses()).to.deep.equal(processes)

  /** Waits until the unit that continues an interrupted upgrade at boot has ended. */
  async function waitForReturn(): Promise<void> {
    const state = (): string => machine.try('systemctl', 'is-active', 'berth-upgrade-resume').output.trim()
    await waitFor(() => !state().endsWith('activating') && state() !== 'active', { timeoutMs: 900_000, what: state })
  }

  /** Waits until the agent has started the guest again after a power failure, and reads the new processes. */
  async function expectGuestAgain(): Promise<void> {
    const isRunning = (): boolean => api().tryAsk<{ status: string }>('/containers/guest')?.status === 'running'
    await host.waitUntilOnline()
    await waitFor(() => isRunning() && host.guestProcesses().length === 1, { timeoutMs: 600_000, what: 'the guest' })
    processes = host.guestProcesses()
  }

  for (const [action, what] of [
    ['--upgrade', 'an upgrade'],
    ['--rollback', 'a rollback'],
  ] as const)
    it(`succeed when ${what} is repeated after it was killed at each of its commands`, async () => {
      order(action)
      for (const command of ['curl', 'ln', 'mv', 'dpkg', 'apt-get install']) {
        expect(killAt(action, command)).to.match(new RegExp(`^${command}`))
        expectGuest()
      }
      for (let at = 1; killAt(action, at) !== ''; at += 1) expectGuest()
      expectGuest()
      await repeat(action)
      expectGuest()
    })

  for (const [moment, name, states] of [
    ['dpkg unpacks berth-runtime', 'berth-runtime', /^i[HU]|R$/],
    ['dpkg replaces berth-agent', 'berth-agent', /^i[HUF]|R$/],
    ['dpkg configures berth-agent', 'berth-agent', /^iF/],
  ] as const) {
    const isNow = (): boolean => states.test(statusOf(name))

    it(`succeed when they are repeated after a kill that happened while ${moment}`, async () => {
      for (const action of ['--upgrade', '--rollback'] as const) {
        order(action)
        await interruptWhen(action, isNow, kill)
        expectGuest()
        await repeat(action)
        expectGuest()
      }
    })

    it(`succeed when they are repeated after a power failure that happened while ${moment}`, async () => {
      for (const action of ['--upgrade', '--rollback'] as const) {
        order(action)
        await interruptWhen(action, isNow, () => machine.cutPower())
        await machine.start()
        await waitForReturn()
        const { code, output, error } = machine.try('dpkg', '--configure', '-a')
        expect(code, output + error).to.equal(0)
        await expectGuestAgain()
        await repeat(action)
        expectGuest()
      }
    })
  }

  it('are completed by the command with which the gateway adds a host', async () => {
    api().ask(`/hosts/${host.id}/upgrade`, { method: 'POST', body: {} })
    await waitFor(() => /^i[HUF]|R$/.test(statusOf('berth-agent')), { timeoutMs: 600_000, what: 'dpkg' })
    kill()
    const { command } = api().ask<{ command: string }>(`/hosts/${host.id}/join-token`, { method: 'POST', body: {} })
    const { code, output, error } = machine.try('sh', '-c', command)
    expect(code, output + error).to.equal(0)
    await host.waitUntilOnline(second)
    expectGuest()
  })
})
