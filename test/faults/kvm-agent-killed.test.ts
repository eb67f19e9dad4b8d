import { execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect } from 'chai'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { findLiveProcess, listDirectory } from '../../agent/host/process/proc.js'
import {
  createGuest,
  createRequest,
  operationDone,
  operationEnded,
  powerOrder,
  submit,
} from '../support/host/agent-calls.js'
import { AgentProcess } from '../support/host/agent-process.js'
import { sshInto } from '../support/guests/ssh-into.js'
import { installTinyImage } from '../support/guests/tiny-image.js'
import { waitFor } from '../support/wait.js'
import { WatchedHost } from '../support/host/watched-host.js'

const [templateId, password] = ['debian-12-kvm', 'a-Password-1']
const login = { sshAuthMode: 'password', sshPassword: password }

/** Virtual machines are not child processes of the agent, so the agent has to find them again after it was killed. */
describe('an agent that was killed and restarted', function () {
  let agent: AgentProcess
  let watched: WatchedHost
  let guest: Guest

  before(async () => {
    agent = await AgentProcess.create('kvk')
    await agent.start()
    await agent.ready()
    await agent.kill('SIGTERM')
    installTinyImage(join(agent.directory, 'pool'), templateId)
    await open()
    const request = createRequest(1, 'vm-1', { virtualization: 'kvm', templateId, ...login })
    const operations = agent.operations()
    const { operation, guest: made } = await createGuest(operations, request)
    await operationDone(operations, operation!.id)
    operations.close()
    guest = made!
  })
  after(async () => {
    watched?.close()
    await agent?.destroy()
  })

  async function open(): Promise<void> {
    await agent.start()
    await agent.ready()
    watched = new WatchedHost(agent.watch())
  }

  async function again(meanwhile: () => Promise<void> = async () => undefined): Promise<void> {
    watched.close()
    await agent.kill('SIGKILL')
    await meanwhile()
    await open()
  }

  /** PIDs of this test's QEMU processes, found by their cgroup. */
  const pids = (): number[] =>
    listDirectory('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .filter((pid) => isOurs(pid))
  const isOurs = (pid: number): boolean => {
    if (!findLiveProcess(pid)?.command.startsWith('qemu-system')) return false
    return execFileSync('cat', [`/proc/${pid}/cgroup`], { encoding: 'utf8' }).includes('kvm.payload.xkvk-')
  }
  const shown = (): Guest | undefined => watched.guests().find(({ uuid }) => uuid === guest.uuid)
  const power = async (action: 'stop' | 'start' | 'delete'): Promise<void> => {
    const operations = agent.operations()
    const { operation } = await submit(operations, powerOrder(action, guest.uuid))
    await operationDone(operations, operation!.id)
    operations.close()
  }
  const ssh = (command: string): Promise<string> => sshInto({ address: guest.ipv4, password }, command)

  it('finds the running process of a virtual machine, and connects to this process', async () => {
    const before = pids()
    expect(before).to.have.length(1)
    for (let round = 0; round < 5; round++) await again()
    await waitFor(() => shown()?.status === 'running', { what: 'it to be shown as running' })
    expect(pids()).to.deep.equal(before)
    expect(await ssh('hostname')).to.equal('vm-1')
  })

  it('does nothing to a virtual machine that does not respond, and connects as soon as it responds', async () => {
    const before = pids()
    // A stopped process keeps its sockets open but does not respond.
    for (const pid of before) process.kill(pid, 'SIGSTOP')
    await again()
    expect(pids()).to.deep.equal(before)
    await agent.kill('SIGKILL')
    for (const pid of before) process.kill(pid, 'SIGCONT')
    await open()
    await waitFor(() => shown()?.status === 'running', { what: 'it to be shown as running' })
    expect(pids()).to.deep.equal(before)
    expect(await ssh('hostname')).to.equal('vm-1')
  })

  it('notices that a virtual machine shut itself down while no agent ran, and does not start it', async () => {
    await again(async () => {
      await ssh('(sleep 1; poweroff -f) >/dev/null 2>&1 &')
      // `poweroff -f` does not shut the network down first, so a failed ping shows that the guest is off.
      const isDown = (): boolean => spawnSync('ping', ['-c1', '-W1', guest.ipv4]).status !== 0
      await waitFor(isDown, { what: 'it to shut down' })
    })
    await waitFor(() => shown()?.status === 'stopped', {
      what: 'it to be shown as stopped',
    })
    expect(shown()?.statusReason).to.equal('shut down from inside')
    expect(pids()).to.deep.equal([])
  })

  it('starts a virtual machine that was killed while no agent ran', async () => {
    await power('start')
    await again(async () => {
      for (const pid of pids()) process.kill(pid, 'SIGKILL')
      await waitFor(() => pids().length === 0)
    })
    await waitFor(() => pids().length === 1, { what: 'its process to be back' })
  })

  it('completes or undoes the interrupted operation, and leaves nothing behind', async () => {
    await waitFor(() => shown()?.status === 'running', { what: 'it to run' })
    for (const [round, action] of (['stop', 'start', 'stop', 'start', 'stop', 'start'] as const).entries()) {
      const operations = agent.operations()
      const { operation } = await submit(operations, powerOrder(action, guest.uuid))
      operations.close()
      await new Promise((resolve) => setTimeout(resolve, round * 60)) // each round kills the agent at another step
      await again()
      const after = agent.operations()
      await operationEnded(after, operation!.id)
      after.close()
      const running = action === 'start'
      await waitFor(() => shown()?.status === (running ? 'running' : 'stopped'))
      expect(pids(), action).to.have.length(running ? 1 : 0)
    }
    await power('delete')
    expect(pids()).to.deep.equal([])
    for (const folder of ['run/kvm', 'state/kvm'])
      expect(listDirectory(join(agent.directory, folder)), folder).to.deep.equal([])
    expect(listDirectory('/sys/class/net').filter((name) => name.startsWith('xkvk'))).to.deep.equal([])
    for (const path of listDirectory('/sys/fs/cgroup'))
      expect(listDirectory(`/sys/fs/cgroup/${path}`).filter((name) => name.includes('xkvk-'))).to.deep.equal([])
  })
})
