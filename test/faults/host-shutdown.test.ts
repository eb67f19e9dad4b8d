import { spawnSync } from 'node:child_process'
import { closeSync, openSync, readdirSync, readFileSync, readSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { parse, stringify } from 'yaml'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { readCgroupLayout } from '../../agent/host/process/cgroup.js'
import { listDirectory } from '../../agent/host/process/proc.js'
import { createGuest, createRequest, operationDone, powerOrder, submit } from '../support/host/agent-calls.js'
import { AgentProcess } from '../support/host/agent-process.js'
import { installBusyboxImage } from '../support/guests/busybox-image.js'
import { sshInto } from '../support/guests/ssh-into.js'
import { installTinyImage, tinyDataOffset } from '../support/guests/tiny-image.js'
import { patienceMs, waitFor } from '../support/wait.js'
import { WatchedHost } from '../support/host/watched-host.js'

const [tag, templateId, password] = ['hsd', 'debian-12-kvm', 'a-Password-1']
const login = { sshAuthMode: 'password', sshPassword: password }
/** An inittab of BusyBox. Its shutdown action writes a file, which shows that the guest was not killed. */
const inittab = '::respawn:/bin/sleep 100000\n::shutdown:/bin/sh -c "echo clean >/root/ended"\n'

/** Tests what the systemd unit berth-guests does at shutdown, without a shutdown of the test host. */
describe('the guests of a host that shuts down', function () {
  let agent: AgentProcess
  const made = new Map<string, Guest>()
  const guest = (name: string): Guest => made.get(name)!

  before(async () => {
    agent = await AgentProcess.create(tag, { lxc: { stop_timeout_seconds: 10 } })
    await start()
    await agent.kill('SIGTERM')
    const pool = join(agent.directory, 'pool')
    await installBusyboxImage(pool, 'debian-12')
    installTinyImage(pool, templateId)
    await start()
    await create(1, 'clean', {})
    await create(2, 'deaf', {})
    await create(3, 'unwanted', {})
    await create(4, 'vm', { virtualization: 'kvm', templateId, ...login })
    await power('stop', 'unwanted')
  })
  after(() => agent?.destroy())

  async function start(): Promise<void> {
    await agent.start()
    await agent.ready()
  }

  async function create(id: number, name: string, spec: Parameters<typeof createRequest>[2]): Promise<void> {
    const operations = agent.operations()
    const { operation, guest: created } = await createGuest(operations, createRequest(id, name, spec))
    await operationDone(operations, operation!.id)
    operations.close()
    made.set(name, created!)
  }

  async function power(action: 'stop' | 'start', name: string): Promise<void> {
    const operations = agent.operations()
    const { operation } = await submit(operations, powerOrder(action, guest(name).uuid))
    await operationDone(operations, operation!.id)
    operations.close()
  }

  /** Stops the guest, changes its files with `write`, and starts it again. */
  async function rewrite(name: string, write: (root: string) => void): Promise<void> {
    await power('stop', name)
    write(rootOf(name))
    await power('start', name)
  }

  const rootOf = (name: string): string => join(agent.directory, 'pool/guests', guest(name).uuid)
  /** Names of running guests, read from their cgroups. */
  const running = (): string[] => {
    const groups = readCgroupLayout().hierarchies.flatMap(listDirectory)
    const names = groups.flatMap((group) => /^(?:lxc|kvm)\.payload\.(xhsd-.*)$/.exec(group)?.[1] ?? [])
    return [...new Set(names)].sort()
  }
  const namesOf = (...names: string[]): string[] => names.map((name) => `x${tag}-${guest(name).id}`).sort()
  /** True if the file system of the guest needs a journal replay, as after a power failure. */
  const needsRecovery = (name: string): boolean => {
    const superblock = Buffer.alloc(1024)
    const disk = openSync(join(rootOf(name), 'disk.raw'), 'r')
    readSync(disk, superblock, 0, 1024, tinyDataOffset + 1024)
    closeSync(disk)
    expect(superblock.readUInt16LE(0x38)).to.equal(0xef53) // magic number of ext4
    return (superblock.readUInt32LE(0x60) & 0x4) !== 0 // EXT4_FEATURE_INCOMPAT_RECOVER
  }
  const stopGuests = (...options: string[]) =>
    spawnSync(process.execPath, ['dist/agent/main.js', 'stop-guests', ...options, '--config', agent.configPath], {
      encoding: 'utf8',
      timeout: patienceMs,
    })

  async function expectStatuses(wanted: Record<string, string>): Promise<void> {
    const watched = new WatchedHost(agent.watch())
    const statuses = (): Record<string, string> =>
      Object.fromEntries(watched.guests().map(({ name, status }) => [name, status]))
    const isSo = (): boolean => Object.entries(wanted).every(([name, status]) => statuses()[name] === status)
    await waitFor(isSo, { what: () => JSON.stringify(statuses()) }).finally(() => watched.close())
  }

  it('run longer than the agent, because the agent would otherwise record that they shut themselves down', () => {
    const { status, stderr } = stopGuests()
    expect(status).to.equal(1)
    expect(stderr).to.include('another berth-agent is already running with this state directory')
    expect(running()).to.deep.equal(namesOf('clean', 'deaf', 'vm'))
  })

  it('keep running if only the systemd unit of the agent is stopped', async () => {
    await rewrite('clean', (root) => writeFileSync(join(root, 'etc/inittab'), inittab))
    await rewrite('deaf', (root) => {
      rmSync(join(root, 'sbin/init'))
      writeFileSync(join(root, 'sbin/init'), '#!/bin/sh\ntrap "" PWR TERM\nwhile :; do sleep 1; done\n', {
        mode: 0o755,
      })
    })
    await sshInto({ address: guest('vm').ipv4, password }, 'true')
    await agent.kill('SIGTERM')
    const { status, stderr } = stopGuests('--with-machine')
    expect(status, stderr).to.equal(0)
    expect(running()).to.deep.equal(namesOf('clean', 'deaf', 'vm'))
  })

  it('are shut down, or killed if they do not react, even if the driver of virtual machines is disabled', () => {
    const config = parse(readFileSync(agent.configPath, 'utf8')) as Record<string, object>
    writeFileSync(agent.configPath, stringify({ ...config, kvm: { ...config['kvm'], enabled: false } }))
    const { status, stdout, stderr } = stopGuests()
    writeFileSync(agent.configPath, stringify(config))
    expect(status, stdout + stderr).to.equal(0)
    expect(running()).to.deep.equal([])
    expect(readFileSync(join(rootOf('clean'), 'root/ended'), 'utf8')).to.equal('clean\n')
    expect(needsRecovery('vm')).to.equal(false)
  })

  it('run again after the boot, except guests that were stopped before', async () => {
    expect(readdirSync(join(agent.directory, 'run/lxc-stopped'))).to.deep.equal([])
    await start()
    await expectStatuses({ clean: 'running', deaf: 'running', unwanted: 'stopped', vm: 'running' })
    expect(running()).to.deep.equal(namesOf('clean', 'deaf', 'vm'))
  })
})
