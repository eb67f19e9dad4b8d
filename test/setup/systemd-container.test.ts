import { expect } from 'chai'
import { machineApi } from '../support/host/machine-api.js'
import { SystemdMachine, checkout } from '../support/host/systemd-machine.js'
import { waitFor } from '../support/wait.js'

/*
 * Tests scripts/up and the units on a host with systemd: guests survive every restart and failure of the daemons.
 */

let machine: SystemdMachine | undefined
const host = (): SystemdMachine => {
  if (!machine) throw new Error('the machine does not run')
  return machine
}
const run = (...command: string[]): string => host().run(...command)
const show = (unit: string, property: string): string =>
  run('systemctl', 'show', '-p', property, '--value', unit).trim()
const mainPid = (unit: string): string => show(unit, 'MainPID')
const failedUnits = (): string => run('systemctl', 'list-units', '--failed', '--plain', '--no-legend').trim()

const { ask: api, tryAsk: tryApi, follow: followTask } = machineApi(run)

const hostStatus = (): string | undefined => tryApi<{ status: string }[]>('/hosts')?.[0]?.status
const guestStatus = (): string | undefined => tryApi<{ status: string }>('/containers/first')?.status

async function waitForHost(status: string): Promise<void> {
  await waitFor(() => hostStatus() === status, {
    intervalMs: 300,
    what: () => `the host to be ${status}; it is ${String(hostStatus())}\n${journal()}`,
  })
}

const journal = (): string => run('journalctl', '-n', '30', '--no-pager', '-o', 'cat', '-u', 'berth-*')

/** First process of each guest: its control group, pid and start time. */
function guestInits(): string[] {
  const script = `cd /sys/fs/cgroup/pids 2>/dev/null || cd /sys/fs/cgroup
    for group in $(ls -d lxc.payload.* 2>/dev/null); do
      pid=$(find "$group" -name cgroup.procs -exec cat {} + | sort -n | head -n 1)
      echo "$group $pid $(sed 's/.*) //' "/proc/$pid/stat" | cut -d ' ' -f 20)"
    done`
  return run('sh', '-c', script).trim().split('\n').filter(Boolean)
}

const guestPid = (): string => guestInits()[0]?.split(' ')[1] ?? ''
const monitorPid = (): string => run('pgrep', '-f', '^\\[lxc monitor\\] /var/lib/berth/agent/lxc').trim()

/** The value of a key in /proc/PID/status. */
const statusOf = (pid: string, key: string): string =>
  new RegExp(`^${key}:\\s+(.*)$`, 'm').exec(run('cat', `/proc/${pid}/status`))?.[1] ?? ''

function guestLimits(): string {
  const files = '*/lxc.payload.bt-1/memory.limit_in_bytes */lxc.payload.bt-1/pids.max lxc.payload.bt-1/*.max'
  return run('sh', '-c', `cd /sys/fs/cgroup && grep -s . ${files} || true`)
}

const newKey = { name: 'kept', scopes: ['host:read'] }

/** Addresses and inodes of the gateway's listening sockets. */
function listening(): string[] {
  const lines = run('ss', '-Hltne', 'sport = :8080 or sport = :8081').trim().split('\n')
  return lines.map((line) => /(\S+:808[01]) .* (ino:\d+)/.exec(line)?.slice(1).join(' ') ?? line).sort()
}

/** Runs `deed`. Expects that guests keep their processes, the host is online afterwards and its guest still runs. */
async function expectGuestsToOutlive(deed: () => void | Promise<void>): Promise<void> {
  const before = guestInits()
  expect(before).to.have.length(1)
  await deed()
  expect(guestInits()).to.deep.equal(before)
  await waitFor(() => hostStatus() === 'online' && guestStatus() === 'running', {
    what: 'the host online and in control of its guest',
  })
  expect(guestInits()).to.deep.equal(before)
}

describe('the systemd units', function () {
  this.bail(true) // each test needs the results of the previous ones

  before(async () => {
    machine = await SystemdMachine.create('btest-systemd')
    await host().start()
  })
  after(() => machine?.destroy())

  it('are active and enabled after scripts/up, and the host is online', () => {
    const output = run('bash', `${checkout}/scripts/up`, '--no-kvm')
    expect(output).to.include('Berth is up').and.include('journalctl -u berth-agent.service')
    for (const unit of ['berth-agent', 'berth-gateway', 'berth-guests', 'lxcfs']) {
      expect(show(unit, 'ActiveState')).to.equal('active')
      expect(show(unit, 'UnitFileState')).to.equal('enabled')
      expect(show(unit, 'NRestarts')).to.equal('0')
    }
    expect(hostStatus()).to.equal('online')
    expect(failedUnits()).to.equal('')
  })

  it('are not restarted if scripts/up runs again', () => {
    const before = ['berth-agent', 'berth-gateway', 'lxcfs'].map(mainPid)
    run('bash', `${checkout}/scripts/up`, '--no-kvm')
    expect(['berth-agent', 'berth-gateway', 'lxcfs'].map(mainPid)).to.deep.equal(before)
  })

  it('run the gateway as user berth, with a system call filter and one capability (ports below 1024)', () => {
    const pid = mainPid('berth-gateway')
    const uid = run('id', '-u', 'berth').trim()
    expect(statusOf(pid, 'Uid')).to.equal([uid, uid, uid, uid].join('\t'))
    // CAP_NET_BIND_SERVICE is bit 10.
    for (const set of ['CapBnd', 'CapEff']) expect(statusOf(pid, set)).to.match(/^0+400$/)
    expect(statusOf(pid, 'NoNewPrivs')).to.equal('1')
    expect(statusOf(pid, 'Seccomp')).to.equal('2')
  })

  it('let the gateway serve TLS on port 443 and redirect port 80 to it', () => {
    const put = (body: object) => api<{ port: number; warnings: string[] }>('/ssl', { method: 'PUT', body })
    expect(put({ mode: 'self_signed', target: 'panel.example' })).to.include({ port: 443 })
    expect(run('curl', '-sk', 'https://127.0.0.1/healthz')).to.equal('ok\n')
    const location = run('curl', '-s', '-o', '/dev/null', '-w', '%{redirect_url}', 'http://127.0.0.1/x')
    expect(location).to.equal('https://panel.example/x')
    expect(put({ mode: 'disabled' }).warnings).to.deep.equal([])
    expect(host().try('curl', '-sk', 'https://127.0.0.1/healthz').code, 'refused').to.equal(7)
  })

  // A kill interrupts the request in progress, so curl exits with 52 or 56. Exit code 7 is a refused connection.
  const endings: [name: string, command: string[], answers: string[]][] = [
    ['systemctl restart', ['restart', 'berth-gateway'], ['ok']],
    [
      'systemctl kill -s KILL',
      ['kill', '-s', 'KILL', '--kill-whom=main', 'berth-gateway'],
      ['ok', 'exit 52', 'exit 56'],
    ],
  ]
  for (const [name, command, answers] of endings)
    it(`keep the gateway’s sockets open, without one refused connection, during ${name}`, async () => {
      const before = { pid: mainPid('berth-gateway'), sockets: listening() }
      const load = `while [ -e /run/load ]; do curl -s --max-time 30 http://127.0.0.1:8080/healthz || echo "exit $?"; done`
      run('touch', '/run/load')
      run('systemd-run', '--unit', 'load', '--collect', '-p', 'StandardOutput=truncate:/run/answers', 'sh', '-c', load)
      run('systemctl', ...command)
      await waitFor(() => !['0', before.pid].includes(mainPid('berth-gateway')), { what: 'another gateway' })
      await waitForHost('online')
      run('rm', '/run/load')
      await waitFor(() => host().try('systemctl', 'is-active', 'load').code !== 0, { what: 'the end of the load' })
      expect(listening()).to.deep.equal(before.sockets)
      const received = new Set(run('cat', '/run/answers').trim().split('\n'))
      expect(answers).to.include.members([...received])
    })

  it('close the socket of an address that is removed from gateway.yaml', async () => {
    const answer = (port: number) => host().try('curl', '-s', `http://127.0.0.1:${port}/healthz`)
    for (const [from, to] of [
      [8080, 8082],
      [8082, 8080],
    ] as const) {
      run('sed', '-i', `s/^listen: .*:${from}$/listen: 127.0.0.1:${to}/`, '/etc/berth/gateway.yaml')
      run('systemctl', 'restart', 'berth-gateway')
      await waitFor(() => answer(to).output === 'ok\n', { what: `an answer on port ${to}` })
      expect(answer(from).code, 'refused').to.equal(7)
    }
  })

  it('run a guest in its own control groups, outside the control groups of the agent', async () => {
    const body = {
      name: 'first',
      virtualization: 'lxc',
      template_id: 'debian-12',
      vcpu: 1,
      ram_mb: 256,
      disk_gb: 1,
      assign_nat: true,
      port_mapping_count: 2,
    }
    await followTask(api<{ task_id: string }>('/containers', { method: 'POST', body }).task_id)
    expect(guestStatus()).to.equal('running')
    for (const pid of [guestPid(), monitorPid()])
      expect(run('cat', `/proc/${pid}/cgroup`))
        .to.match(/:\/lxc\.(payload|monitor)\.bt-1$/m)
        .and.not.include('berth-agent')
    expect(run('systemctl', 'status', '--no-pager', 'berth-agent')).not.to.include('lxc monitor')
  })

  it('confine the agent without restricting the rights of a guest', () => {
    const pid = guestPid()
    expect(statusOf(pid, 'NoNewPrivs')).to.equal('0')
    expect(statusOf(pid, 'Seccomp_filters')).to.equal('2') // LXC adds one filter, the agent one, and the unit none
    expect(statusOf(pid, 'Umask')).to.equal('0022')
    expect(run('cat', `/proc/${pid}/oom_score_adj`).trim()).to.equal('0')
    // A guest keeps cap_sys_nice (bit 23). It does not get cap_sys_time (bit 25), which the agent's unit does not have.
    const has = (bit: bigint): boolean => ((BigInt(`0x${statusOf(pid, 'CapBnd')}`) >> bit) & 1n) === 1n
    expect([has(23n), has(25n)]).to.deep.equal([true, false])
  })

  it('let the agent mount the pool in the mount namespace of the host', () => {
    expect(run('findmnt', '-no', 'FSTYPE', '/var/lib/berth/pool').trim()).to.equal('btrfs')
    const [one, agent] = ['1', mainPid('berth-agent')].map((pid) => run('readlink', `/proc/${pid}/ns/mnt`))
    expect(agent).to.equal(one)
  })

  const deeds: [name: string, command: string[]][] = [
    ['systemctl restart', ['restart', 'berth-agent']],
    ['systemctl kill -s KILL for all processes of the unit', ['kill', '-s', 'KILL', 'berth-agent']],
    [
      'systemctl kill -s SEGV for the main process of the unit',
      ['kill', '-s', 'SEGV', '--kill-whom=main', 'berth-agent'],
    ],
  ]
  for (const [name, command] of deeds)
    it(`restart the agent, and leave the processes of its guest running, after ${name}`, async () => {
      const before = mainPid('berth-agent')
      const changed = (): boolean => !['0', before].includes(mainPid('berth-agent'))
      await expectGuestsToOutlive(async () => {
        run('systemctl', ...command)
        await waitFor(changed, { what: 'another agent' })
      })
      expect(show('berth-agent', 'ActiveState')).to.equal('active')
    })

  it('keep the guest running while the agent is stopped, and let the restarted agent control the guest', async () => {
    const before = guestInits()
    run('systemctl', 'stop', 'berth-agent')
    expect(show('berth-agent', 'ActiveState')).to.equal('inactive')
    expect(show('berth-agent', 'Result')).to.equal('success')
    await waitForHost('offline')
    expect(guestInits()).to.deep.equal(before)
    run('systemctl', 'start', 'berth-agent')
    await waitForHost('online')
    expect(guestInits()).to.deep.equal(before)
    const task = api<{ task_id: string }>('/containers/first/restart', {
      method: 'POST',
      body: { force: true },
    })
    await followTask(task.task_id)
    expect(guestInits()).to.have.length(1).and.not.deep.equal(before)
  })

  for (const verb of ['restart', 'stop', 'start'])
    it(`keep guests running after systemctl ${verb} of the unit that stops them in a shutdown`, () =>
      expectGuestsToOutlive(() => void run('systemctl', verb, 'berth-guests')))

  it('keep the limits of a guest when systemd runs daemon-reload and daemon-reexec', async () => {
    const before = guestLimits()
    expect(before).to.include('268435456')
    await expectGuestsToOutlive(() => {
      run('systemctl', 'daemon-reload')
      run('systemctl', 'daemon-reexec')
    })
    expect(guestLimits()).to.equal(before)
  })

  it('restart a killed gateway with all acknowledged changes and exactly one Redis server', async () => {
    const { id } = api<{ id: string }>('/api-keys', { method: 'POST', body: newKey })
    const redis = (): string => run('pgrep', '-x', 'redis-server').trim()
    const before = redis()
    await expectGuestsToOutlive(() => {
      run('systemctl', 'kill', '-s', 'KILL', '--kill-whom=main', 'berth-gateway')
    })
    expect(redis()).to.match(/^\d+$/).and.not.equal(before)
    expect(api<{ id: string }[]>('/api-keys').map((key) => key.id)).to.include(id)
  })

  it('are restarted by scripts/up only if the unit files have changed', async () => {
    const gateway = mainPid('berth-gateway')
    const unit = `${checkout}/systemd/berth-agent.service`
    await expectGuestsToOutlive(() => {
      run('sed', '-i', 's/^TimeoutStopSec=.*/TimeoutStopSec=31/', unit)
      expect(run('bash', `${checkout}/scripts/up`, '--no-kvm')).to.include('Restarting the agent')
    })
    expect(show('berth-agent', 'TimeoutStopUSec')).to.equal('31s')
    expect(mainPid('berth-gateway')).to.equal(gateway)
  })

  it('do not restart the agent if its configuration has an error, and report the error', () => {
    const file = '/etc/berth/agent.yaml'
    run('sh', '-c', `cp ${file} /root/kept && echo 'nonsense: 1' >>${file} && systemctl restart berth-agent`)
    const state = (): string => show('berth-agent', 'ActiveState')
    return waitFor(() => state() === 'failed', { what: state }).then(() => {
      expect(show('berth-agent', 'NRestarts')).to.equal('0')
      expect(show('berth-agent', 'StartLimitIntervalUSec')).to.equal('0')
      expect(journal()).to.include('nonsense')
      run('sh', '-c', `cp /root/kept ${file} && systemctl restart berth-agent`)
      expect(failedUnits()).to.equal('')
    })
  })

  it('shut the guest down before other services in a reboot, and start the services and the guest again', async () => {
    await waitForHost('online')
    // The guest's init runs this command at the end of a clean shutdown. The restart below makes init read the command.
    const end = '::shutdown:/bin/sh -c "echo clean >/root/ended"'
    run('sh', '-c', `echo '${end}' >>"$(echo /var/lib/berth/pool/guests/*)/etc/inittab"`)
    // The request fails until the gateway has noticed that the host is online.
    const restart = () => tryApi<{ task_id: string }>('/containers/first/restart', { method: 'POST', body: {} })
    const { task_id: id } = await waitFor(restart, { what: 'a restart' })
    await followTask(id)
    run('sh', '-c', 'rm -f /var/lib/berth/pool/guests/*/root/ended')
    const before = guestInits()
    await host().reboot()
    await waitForHost('online') // by then, the agent has mounted the pool, which is read below
    expect(run('sh', '-c', 'cat /var/lib/berth/pool/guests/*/root/ended')).to.equal('clean\n')
    await waitFor(() => guestStatus() === 'running', { what: journal })
    expect(guestInits()).to.have.length(1).and.not.deep.equal(before)
    expect(failedUnits()).to.equal('')
  })

  it('are stopped and disabled by scripts/down, while the guest keeps running', () => {
    const before = guestInits()
    run('bash', `${checkout}/scripts/down`)
    for (const unit of ['berth-agent', 'berth-gateway']) {
      expect(show(unit, 'ActiveState'), `${unit}: ${show(unit, 'Result')}\n${journal()}`).to.equal('inactive')
      expect(show(unit, 'UnitFileState')).to.equal('disabled')
    }
    expect(guestInits()).to.deep.equal(before)
    expect(show('berth-guests', 'ActiveState'), 'for the guest').to.equal('active')
    expect(failedUnits()).to.equal('')
  })

  it('leave no unit, process, control group, mount, link or table after scripts/down --purge', () => {
    const [loop = ''] = run('losetup', '-n', '-O', 'NAME', '-j', '/var/lib/berth/pool.img').split('\n')
    run('bash', `${checkout}/scripts/down`, '--purge')
    const traces = `systemctl list-units --all --plain --no-legend 'berth-*'
      ls -d /etc/berth* /var/lib/berth* /opt/berth* /run/berth* /etc/systemd/system/*berth* \
        /etc/systemd/system/*/*berth* /sys/fs/cgroup/*/lxc.*.bt-* 2>/dev/null
      grep berth /proc/self/mounts | grep -v -e ' / ' -e ' ${checkout}/'
      grep -sx /var/lib/berth/pool.img /sys/block/${loop.replace('/dev/', '')}/loop/backing_file
      ip -o link | grep -E 'berth|bt[0-9]'; nft list tables | grep berth; true`
    expect(run('sh', '-c', traces)).to.equal('')
    expect(host().try('pgrep', '-fa', 'berth/|^\\[lxc monitor').output).to.equal('')
    expect(failedUnits()).to.equal('')
  })
})
