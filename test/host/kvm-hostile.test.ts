import { execFileSync, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { QmpConnection } from '../../agent/drivers/qemu/qmp/connection.js'
import { findLiveProcess } from '../../agent/host/process/proc.js'
import { resetPasswordOrder, powerOrder } from '../support/host/agent-calls.js'
import { kvm, machineAt } from '../support/guests/guest-kinds.js'
import { installIdleImage } from '../support/guests/matrix-guests.js'
import { RealDomain } from '../support/host/real-domain.js'
import { sshInto } from '../support/guests/ssh-into.js'
import { installTinyImage } from '../support/guests/tiny-image.js'
import { deadlineOf, expectInTime } from '../support/promised-time.js'
import { waitFor } from '../support/wait.js'

const python = '/usr/bin/python3'

/** An open block device in the answer of QEMU. */
interface BlockNode {
  readonly 'node-name': string
  readonly drv: string
  readonly backing_file_depth: number
  readonly image: { readonly 'virtual-size': number }
}

/**
 * Program that tries each action in its arguments, and prints those that succeed: `read PATH`, `list PATH`, `connect
 * PATH`, `kill PID`, `trace PID`, `reach ADDRESS PORT`.
 */
const tries = `
import ctypes, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def read(path): os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 1)
def list(path): os.listdir(path)
def connect(path): socket.socket(socket.AF_UNIX).connect(path)
def kill(pid): os.kill(int(pid), 0)
def trace(pid):
    if libc.ptrace(16, int(pid), 0, 0) != 0: raise OSError(ctypes.get_errno(), 'ptrace')
def reach(address): socket.create_connection(address.rsplit(' ', 1), 1)
for attempt in sys.argv[1:]:
    what, at = attempt.split(' ', 1)
    try: globals()[what](at)
    except OSError: continue
    print(attempt)
`

/** Port of the guest agent. The shell programs below answer at this port as hostile guest agents. */
const port = '/dev/virtio-ports/org.qemu.guest_agent.0'
const agents: Readonly<Record<string, string>> = {
  'an endless line': `tr '\\0' a </dev/zero >$p`,
  'lines without end': `yes garbage >$p`,
  'answers without end': `yes '{"return":1,"id":1}' >$p`,
  'answers with deeply nested objects without end': `yes '{"return":[[[[[[[[{}]]]]]]]]}' >$p`,
  'no answers': `cat $p >/dev/null`,
  'answers only to the command “sync”': loop(`sync 0`),
  'only late answers to the command “sync”': loop(`sync 3`),
  'an answer to the command “sync”, and then an endless line': loop(`sync 0; tr '\\0' a </dev/zero >&3`),
  'answers only to the commands “sync” and “freeze”': loop(`sync 0; freeze`),
  'errors as answers to the commands “freeze” and “thaw”': loop(`sync 0; refuse`),
}

/** Program that answers each request. @param answer shell code that may call `sync SECONDS`, `freeze`, `refuse` */
function loop(answer: string): string {
  return `exec 3<>$p
number() { echo "$line" | sed -n "s/.*\\"$1\\":\\([0-9]*\\).*/\\1/p"; }
sync() { case $line in *sync-delimited*) sleep $1; id=$(echo "$line" | sed 's/.*"id":\\([0-9]*\\),"arg.*/\\1/')
  n=$(echo "$line" | sed 's/.*"arguments":{"id":\\([0-9]*\\)}.*/\\1/'); printf '\\377{"return":%s,"id":%s}\\n' $n $id >&3;; esac; }
freeze() { case $line in *fsfreeze-freeze*) printf '{"return":1,"id":%s}\\n' $(number id) >&3;; esac; }
refuse() { case $line in *fsfreeze*) printf '{"error":{"class":"CommandNotFound","desc":"no"},"id":%s}\\n' $(number id) >&3;; esac; }
while :; do if read -r line <&3; then ${answer}; else sleep 0.05; fi; done` // without a client, `read` fails at once
}

describe('hostile virtual machines', function () {
  const real = new RealDomain('kvx', { kvm: { stop_timeout_seconds: 2 } })
  const uuids: string[] = []

  before(async () => {
    await real.open()
    installTinyImage(real.config.storage.pool, 'debian-12-kvm')
    await real.domain.images.sweep()
    for (const name of ['one', 'two']) uuids.push(await real.create(name, kvm.spec))
  })
  after(() => real.close())

  const nameOf = (uuid: string): string => `xkvx-${real.record(uuid).id}`
  const inside = (uuid: string, command: string): Promise<string> => sshInto(machineAt(real.record(uuid).ipv4), command)
  async function pidOf(uuid: string): Promise<number> {
    const seen = await real.domain.context.machines.findDriver('kvm')!.observe()
    return seen.find((one) => one.uuid === uuid)!.pid!
  }

  it('that control their QEMU cannot reach files, processes or ports of the host and of other guests', async () => {
    const [own, other] = [uuids[0]!, uuids[1]!]
    const [pid, otherPid] = [await pidOf(own), await pidOf(other)]
    const { state_dir: state, run_dir: run, storage } = real.config
    const files = [own, other].flatMap((uuid) => [
      ...['disk.raw', 'instance.json'].map((name) => join(real.host.volumes.pathOf(uuid), name)),
      ...['machine.json', 'seed.iso'].map((name) => join(state, 'kvm', nameOf(uuid), name)),
      ...['launched.json', 'log', 'lock'].map((name) => join(run, 'kvm', nameOf(uuid), name)),
    ])
    const sockets = [own, other].flatMap((uuid) =>
      ['qmp', 'qmp2', 'serial', 'agent', 'work/vnc'].map((name) => join(run, 'kvm', nameOf(uuid), name)),
    )
    for (const path of sockets) expect(lstatSync(path).isSocket(), path).to.equal(true)
    const host = ['journal.db', 'secret.key'].map((name) => join(state, name))
    const proc = ['mem', 'environ', 'maps'].map((name) => `/proc/${otherPid}/${name}`)
    const attempts = [
      ...[...files, ...host, ...proc, '/etc/shadow', storage.loop_file].map((path) => `read ${path}`),
      ...[`/proc/${otherPid}/fd`, join(run, 'kvm'), join(state, 'kvm')].map((path) => `list ${path}`),
      ...sockets.map((path) => `connect ${path}`),
      `kill ${otherPid}`,
      `kill ${process.pid}`,
      `trace ${otherPid}`,
      `reach ${real.record(other).ipv4} 22`,
      ...hostPorts(),
    ]
    expect(tryAs(pid, own, attempts)).to.deep.equal([])
    // Root of the host can read or list the same targets. So the attempts above failed for lack of rights.
    const works = attempts.filter((attempt) => /^(read|list)/.test(attempt) && !attempt.includes('/proc/'))
    expect(
      spawnSync(python, ['-c', tries, ...works], { encoding: 'utf8' })
        .stdout.trim()
        .split('\n'),
    ).to.deep.equal(works)
  })

  /** Returns, for each port that listens on this host, an attempt to reach it. */
  function hostPorts(): string[] {
    const text = readFileSync('/proc/net/tcp', 'utf8')
    const listening = [...text.matchAll(/ [0-9A-F]{8}:([0-9A-F]{4}) 00000000:0000 0A /g)]
    return listening.map(([, port = '']) => `reach 127.0.0.1 ${Number.parseInt(port, 16)}`)
  }

  /** Makes attempts as the user of a guest's QEMU, in its namespaces and directory. @returns the successful ones */
  function tryAs(pid: number, uuid: string, attempts: readonly string[]): string[] {
    const uid = String(real.domain.context.machines.of(real.record(uuid)).isolation.userIdBase)
    const enter = ['--target', `${pid}`, '--net', '--ipc', '--uts', '--wd', '--']
    const drop = ['--reuid', uid, '--regid', uid, '--clear-groups', '--no-new-privs', '--bounding-set=-all', '--']
    const { stdout, stderr } = spawnSync(
      'nsenter',
      [...enter, 'setpriv', ...drop, python, '-I', '-c', tries, ...attempts],
      { encoding: 'utf8' },
    )
    expect(stderr).to.equal('')
    return stdout.split('\n').filter(Boolean)
  }

  it('have a QEMU process that has opened only files of its guest', async () => {
    for (const uuid of uuids) {
      const pid = await pidOf(uuid)
      const open = readdirSync(`/proc/${pid}/fd`).map((fd) => readLink(`/proc/${pid}/fd/${fd}`))
      const paths = open.filter((path) => path.startsWith('/') && !path.startsWith('/dev/'))
      const own = [
        join(real.host.volumes.pathOf(uuid), 'disk.raw'),
        join(real.config.state_dir, 'kvm', nameOf(uuid), 'seed.iso'),
        join(real.config.run_dir, 'kvm', nameOf(uuid), 'log'),
      ]
      expect([...new Set(paths)].sort()).to.deep.equal(own.sort())
      const devices = open.filter((path) => path.startsWith('/dev/'))
      expect([...new Set(devices)].sort()).to.deep.equal(['/dev/net/tun', '/dev/null'])
      expect(readFileSync(`/proc/${pid}/net/dev`, 'utf8').match(/^\s*\w+:/gm)).to.have.length(1)
    }
  })

  describe('with a hostile guest agent', () => {
    let bytesBefore = 0
    before(async () => {
      await inside(uuids[0]!, 'killall qemu-ga || true') // qemu-ga may have ended by itself
      bytesBefore = process.memoryUsage().rss
    })

    for (const [what, program] of Object.entries(agents))
      it(`do not delay operations on any guest if their guest agent sends ${what}`, async () => {
        const uuid = uuids[0]!
        await inside(
          uuid,
          `cat >/run/agent <<'END'\np=${port}\n${program}\nEND\nsetsid sh /run/agent </dev/null >/dev/null 2>&1 & echo $! >/run/pid`,
        )
        const began = performance.now()
        const asked = [
          real.done(resetPasswordOrder(uuid, { password: machineAt('').password }).order),
          real.domain.context.machines
            .findDriver('kvm')!
            .usage(real.domain.context.machines.of(real.record(uuid)), await pidOf(uuid)),
        ]
        const beside = await timed(() =>
          real.done(resetPasswordOrder(uuids[1]!, { password: machineAt('').password }).order),
        )
        await Promise.all(asked)
        expect(real.record(uuid).atNextStart).to.deep.equal(['password'])
        const { operation } = await real.domain.orders.submit({
          operationId: randomUUID(),
          requestedBy: 'test',
          order: { $case: 'snapshotCreate', value: { uuid, description: '' } },
        })
        const { status } = await real.domain.engine.wait(operation.id)
        expect(status).to.equal('done')
        expectInTime(began, 30_000, 'everything is done')
        expect(beside, 'ms of another, 10 s are promised').to.be.lessThan(deadlineOf(10_000))
        expect(await inside(uuid, 'echo on')).to.equal('on')
        await inside(uuid, 'kill -9 -$(cat /run/pid) 2>/dev/null; kill -9 $(cat /run/pid); true')
        const frozen = join(real.config.run_dir, 'kvm', nameOf(uuid), 'frozen')
        await waitFor(() => !existsSync(frozen), { what: 'nothing more to thaw' })
        const [snapshot] = real.record(uuid).snapshots
        if (snapshot) await real.done({ $case: 'snapshotDelete', value: { uuid, snapshotId: snapshot.id } })
      })

    it('do not make Berth’s agent use more memory', () => {
      expect((process.memoryUsage().rss - bytesBefore) / 2 ** 20, 'MiB').to.be.lessThan(100)
    })

    it('get a new password at their next boot if their guest agent did not set it', async () => {
      const uuid = uuids[0]!
      expect(real.record(uuid).atNextStart).to.include('password')
      real.domain.reconciler.listen()
      const before = await pidOf(uuid)
      await inside(uuid, '(sleep 1; sync; reboot -f) >/dev/null 2>&1 &')
      await waitFor(() => real.record(uuid).atNextStart.length === 0, { what: 'the report of its reboot' })
      expect(await inside(uuid, 'hostname')).to.equal('one')
      expect(await pidOf(uuid)).to.equal(before)
    })
  })

  /** The virtual machine is idle. The test writes to its disk in place of the system inside. */
  describe('with an idle operating system', () => {
    let uuid = ''
    const disk = (): string => join(real.host.volumes.pathOf(uuid), 'disk.raw')
    before(async () => {
      installIdleImage(real.config.storage.pool, 'debian-13-kvm')
      await real.domain.images.sweep()
      uuid = await real.create('idle', { ...kvm.spec, templateId: 'debian-13-kvm' })
    })

    it('see only their raw disk, and no file of the host, even if they write a qcow2 header to it', async () => {
      await real.done(powerOrder('stop', uuid).order)
      const header = join(real.config.run_dir, 'header.qcow2')
      execFileSync('qemu-img', ['create', '-q', '-f', 'qcow2', '-F', 'raw', '-b', '/etc/shadow', header, '8G'])
      execFileSync('dd', ['status=none', `if=${header}`, `of=${disk()}`, 'conv=notrunc'])
      const snapshotId = await real.done({ $case: 'snapshotCreate', value: { uuid, description: '' } })
      await real.done(powerOrder('start', uuid).order)
      await real.done({ $case: 'snapshotRestore', value: { uuid, snapshotId } })
      const monitor = await QmpConnection.open({
        path: join(real.config.run_dir, 'kvm', nameOf(uuid), 'qmp2'),
        timeoutMs: 120_000,
        greets: true,
      })
      const nodes = (await monitor.execute('query-named-block-nodes', { flat: true })) as BlockNode[]
      monitor.close()
      const of = (name: string): BlockNode => nodes.find((node) => node['node-name'] === name)!
      expect(nodes.map(({ drv }) => drv).filter((drv) => !['file', 'raw', 'throttle'].includes(drv))).to.deep.equal([])
      expect([of('disk').image['virtual-size'], of('disk').backing_file_depth]).to.deep.equal([2 ** 30, 0])
      expect(execFileSync('head', ['-c', '3', disk()], { encoding: 'latin1' })).to.equal('QFI')
    })

    it('are killed after the timeout if they ignore the power button', async () => {
      const pid = await pidOf(uuid)
      await real.done({ $case: 'stop', value: { uuid, force: false } })
      expect([real.record(uuid).status, findLiveProcess(pid)]).to.deep.equal(['stopped', undefined])
    })
  })
})

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}

function readLink(path: string): string {
  return spawnSync('readlink', [path], { encoding: 'utf8' }).stdout.trim()
}
