import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { exampleProxyConfig, sharedAddress } from '../support/network/balanced-lab.js'
import { removeNamespace } from '../support/kill.js'
import { scratchDirectory } from '../support/scratch.js'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'

const machines = [1, 2] as const
type Machine = (typeof machines)[number]
const spaceOf = (machine: Machine): string => `btestvrrp-${machine}`
const addressOf = (machine: Machine): string => `192.0.2.${machine}`

/** Tests the example configuration of keepalived with two machines, which are network namespaces. */
describe('an address that two machines share with keepalived', () => {
  const scratch = scratchDirectory('btest-vrrp')
  const proxies = new Map<Machine, ChildProcess>()
  before(() => {
    removeLeft()
    for (const machine of machines) sh('ip', 'netns', 'add', spaceOf(machine))
    sh('ip', 'link', 'add', 'eth0', 'netns', spaceOf(1), 'type', 'veth', 'peer', 'name', 'eth0', 'netns', spaceOf(2))
    for (const machine of machines) startMachine(machine)
  })
  after(() => {
    removeLeft()
    scratch.wipe()
  })

  let holder: Machine
  it('is assigned to exactly one machine', async () => {
    holder = await holderOtherThan(undefined)
  })

  it('moves to the second machine when HAProxy stops on the first machine, and stays there afterwards', async () => {
    const former = holder
    await endProxy(former)
    holder = await holderOtherThan(former)
    startProxy(former)
    await waitFor(() => isReady(former), { what: () => logOf(former) })
    expect(holds(holder) && !holds(former), logOf(former)).to.equal(true)
  })

  it('moves back to the first machine when keepalived stops on the second machine', async () => {
    const pid = Number(readFileSync(join(scratch.path, `keepalived-${holder}.pid`), 'utf8'))
    process.kill(pid, 'SIGTERM')
    holder = await holderOtherThan(holder)
  })

  const logOf = (machine: Machine): string => readFileSync(join(scratch.path, `keepalived-${machine}.log`), 'utf8')

  /** True if keepalived has noticed that HAProxy works again. The machine can then take over the address. */
  const isReady = (machine: Machine): boolean =>
    logOf(machine).lastIndexOf('Entering BACKUP') > logOf(machine).lastIndexOf('FAULT')

  const holds = (machine: Machine): boolean =>
    sh('ip', '-n', spaceOf(machine), '-oneline', 'address', 'show', 'dev', 'eth0').includes(` ${sharedAddress}/24 `)

  /** Waits until exactly one machine has the address, and this machine is not `former`. */
  function holderOtherThan(former: Machine | undefined): Promise<Machine> {
    const find = (): Machine | undefined => {
      const [first, second] = machines.filter(holds)
      return second === undefined && first !== former ? first : undefined
    }
    return waitFor(find, { what: () => machines.map(logOf).join('\n') })
  }

  function startMachine(machine: Machine): void {
    for (const device of ['lo', 'eth0']) sh('ip', '-n', spaceOf(machine), 'link', 'set', device, 'up')
    sh('ip', '-n', spaceOf(machine), 'address', 'add', `${addressOf(machine)}/24`, 'dev', 'eth0')
    startProxy(machine)
    const at = (name: string): string => join(scratch.path, `keepalived-${machine}${name}`)
    writeFileSync(at('.conf'), keepalivedConfig(machine))
    const pids = ['--pid', at('.pid'), '--vrrp_pid', at('-vrrp.pid')]
    const options = ['--vrrp', '--dont-fork', '--log-console', '--log-detail', ...pids, '--use-file', at('.conf')]
    run(machine, ['keepalived', ...options], at('.log'))
  }

  function startProxy(machine: Machine): void {
    const file = exampleProxyConfig(scratch.path)
    const log = join(scratch.path, `haproxy-${machine}.log`)
    proxies.set(machine, run(machine, ['haproxy', '-db', '-f', file], log))
  }

  async function endProxy(machine: Machine): Promise<void> {
    const proxy = proxies.get(machine)!
    proxy.kill('SIGKILL')
    await once(proxy, 'exit')
  }

  /** Starts a program on a machine. `ip netns exec` becomes this program, so its pid is the pid of the program. */
  function run(machine: Machine, command: readonly string[], logFile: string): ChildProcess {
    const line = `exec ip netns exec ${spaceOf(machine)} ${command.join(' ')} >>${logFile} 2>&1`
    return spawn('sh', ['-c', line], { stdio: 'ignore' })
  }
})

/**
 * The example configuration of one of two machines. A machine loses the address after 15 s of silence instead of 3 s,
 * since a busy machine may be silent for more than 3 s.
 */
function keepalivedConfig(machine: Machine): string {
  return readFileSync('docs/examples/keepalived.conf', 'utf8')
    .replace('unicast_src_ip 192.0.2.1', `unicast_src_ip ${addressOf(machine)}`)
    .replace(/unicast_peer \{[^}]*\}/, `unicast_peer {\n    ${addressOf(machine === 1 ? 2 : 1)}\n  }`)
    .replace('priority 100', `priority ${101 - machine}`)
    .replace('advert_int 1', 'advert_int 5')
}

/** Removes the namespaces of this run and of earlier runs. */
function removeLeft(): void {
  const names = sh('ip', 'netns', 'list')
  for (const machine of machines) if (names.includes(spaceOf(machine))) removeNamespace(spaceOf(machine))
}
