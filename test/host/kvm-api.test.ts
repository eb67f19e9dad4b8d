import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect } from 'chai'
import type { WebSocket } from 'ws'
import { ConsoleClient } from '../support/gateway/console-client.js'
import type { GatewayProcess, GatewayReply } from '../support/gateway/gateway-process.js'
import { kvm } from '../support/guests/guest-kinds.js'
import { machineShell, tutorialResults } from '../support/host/tutorial.js'
import { ServedHost } from '../support/host/served-host.js'
import { sshInto } from '../support/guests/ssh-into.js'
import { waitFor } from '../support/wait.js'

/** Tests an installed gateway and agent with HTTP requests, and the tutorial with `"virtualization": "kvm"`. */
describe('a virtual machine in the HTTP API', function () {
  const lab = new ServedHost({ name: 'kva', prefix: '198.18.143', prepare: (pool) => kvm.installImage(pool) })
  const { host } = lab
  const address = host.address.split(':')[0] ?? ''
  let gateway: GatewayProcess
  const sockets: WebSocket[] = []
  let sshPort = 0
  let password = ''

  before(async () => {
    await lab.start()
    gateway = lab.gateway
  })
  after(async () => {
    for (const socket of sockets) socket.terminate()
    await lab.close()
  })

  const dataOf = <D>({ body }: GatewayReply): D => (body as unknown as { data: D }).data
  const hostRow = async (): Promise<Record<string, unknown>> =>
    dataOf<Record<string, unknown>[]>(await gateway.request('GET', '/hosts'))[0] ?? {}
  const row = async (): Promise<Record<string, unknown>> => dataOf(await gateway.request('GET', '/containers/vm1'))
  const ssh = (command: string): Promise<string> => sshInto({ address, port: sshPort, password }, command)

  async function done(reply: GatewayReply): Promise<Record<string, unknown>> {
    expect(reply.status, JSON.stringify(reply.body)).to.equal(202)
    const data = dataOf<{ task_id: string }>(reply)
    const read = async () =>
      dataOf<{ status: string; finished_at: string }>(await gateway.request('GET', `/tasks/${data.task_id}`))
    await waitFor(async () => (await read()).finished_at !== '', { what: 'the task' })
    expect((await read()).status, JSON.stringify(await read())).to.equal('done')
    return data
  }

  it('can be created on a host that reports whether it has hardware acceleration', async () => {
    const { kvm, kvm_acceleration: acceleration, kvm_reason: reason } = await hostRow()
    expect(kvm).to.equal(true)
    expect(acceleration === 'kvm' ? reason === '' : String(reason).length > 0).to.equal(true)
  })

  it('can be created with a template id that lacks the suffix -kvm, and answers SSH at its mapped port', async () => {
    const answer = await done(
      await gateway.request('POST', '/containers', {
        body: {
          name: 'vm1',
          virtualization: 'kvm',
          template_id: 'debian-12',
          vcpu: 1,
          ram_mb: 256,
          disk_gb: 1,
          assign_nat: true,
          port_mapping_count: 2,
          ssh_auth_mode: 'auto_password',
          user_data: '#!/bin/sh\ntrue\n',
        },
      }),
    )
    ;[sshPort, password] = [Number(answer['ssh_port']), String(answer['ssh_password'])]
    expect(await ssh('hostname')).to.equal('vm1')
    expect(await row()).to.include({ virtualization: 'kvm', template: 'debian-12-kvm', status: 'running' })
  })

  it('has screenshots, while a container has no screenshots', async () => {
    const url = `${gateway.url}/api/v1/containers/vm1/screenshot`
    const answer = await fetch(url, { headers: { 'x-api-key': gateway.adminKey } })
    expect([answer.status, answer.headers.get('content-type')]).to.deep.equal([200, 'image/png'])
    expect(Buffer.from(await answer.arrayBuffer()).toString('latin1', 1, 4)).to.equal('PNG')
    const made = await gateway.request('POST', '/containers', {
      body: { name: 'ct1', template_id: 'debian-12', vcpu: 0.5, ram_mb: 64, disk_gb: 1 },
    })
    await done(made)
    const refused = await gateway.request('GET', '/containers/ct1/screenshot')
    expect([refused.status, refused.body['code']]).to.deep.equal([400, 'unsupported'])
    await done(await gateway.request('DELETE', '/containers/ct1/delete'))
  })

  it('has two consoles (screen and serial port) that several clients can use at the same time', async () => {
    const open = async (kind: string): Promise<ConsoleClient> => {
      const made = await gateway.request('POST', `/${kind}-ticket`, { body: { container_name: 'vm1' } })
      const { ticket } = dataOf<{ ticket: string }>(made)
      const client = ConsoleClient.open(`${gateway.url}/api/v1/${kind}`, {
        protocols: ['berth.console.v1', `berth-ticket.${ticket}`],
        query: { container: 'vm1' },
      })
      sockets.push(client.socket)
      await client.ready()
      return client
    }
    const screens = [await open('vnc'), await open('vnc')]
    for (const screen of screens) await screen.shows(/^RFB 003\.008\n/)
    const terminals = [await open('ssh'), await open('ssh')]
    for (const [at, terminal] of terminals.entries()) {
      await waitFor(
        () => {
          terminal.type(`echo $((${at + 6}*7))\n`)
          return new RegExp(`^${(at + 6) * 7}`, 'm').test(terminal.text)
        },
        { intervalMs: 500, what: () => `a shell: ${terminal.text.slice(-500)}` },
      )
    }
    expect(sockets.map(({ readyState }) => readyState)).to.deep.equal([1, 1, 1, 1])
    expect(await ssh('echo on')).to.equal('on')
  })

  it('shows whether new limits and passwords take effect at the next start', async () => {
    const put = (body: object): Promise<GatewayReply> =>
      gateway.request('PUT', '/containers/vm1/resource-limit', { body })
    expect((await put({ network_down_mbps: 50 })).body['message']).to.equal('limits updated')
    expect((await put({ vcpu: 2 })).body['message']).to.equal(
      'limits updated; some limits take effect at the next start',
    )
    expect((await row())['at_next_start']).to.deep.equal(['limits'])
    const reset = await gateway.request('POST', '/containers/vm1/reset-password')
    expect(reset.body['message']).to.equal('password set')
    password = dataOf<{ password: string }>(reset).password
    expect(await ssh('echo in')).to.equal('in')
  })

  it('is stopped and blocked during a suspension, and runs again after the suspension', async () => {
    const post = (path: string, body: object = {}): Promise<GatewayReply> => gateway.request('POST', path, { body })
    const isStatus = (status: string): Promise<unknown> =>
      waitFor(async () => (await row())['status'] === status, { what: status })
    const suspended = await post('/containers/vm1/suspend', { reason: 'unpaid', message: 'Please pay' })
    expect(suspended.body['message']).to.equal('container suspended')
    await isStatus('stopped')
    expect(await row()).to.include({ policy: 'suspended', suspended_mode: 'stop' })
    for (const [path, body] of [
      ['/containers/vm1/start', {}],
      ['/containers/vm1/restart', {}],
      ['/containers/vm1/reset-password', {}],
      ['/containers/vm1/reinstall', { template_id: 'debian-12' }],
      ['/vnc-ticket', { container_name: 'vm1' }],
      ['/ssh-ticket', { container_name: 'vm1' }],
    ] as const) {
      const { status, body: answer } = await post(path, body)
      expect([status, answer['code']], path).to.deep.equal([403, 'policy_blocked'])
    }
    await post('/containers/vm1/unsuspend')
    await isStatus('running')
  })

  it('is deleted completely', async () => {
    await done(await gateway.request('DELETE', '/containers/vm1/delete'))
    expect((await gateway.request('GET', '/containers/vm1')).status).to.equal(404)
    const left = execFileSync('sh', ['-c', 'find /sys/fs/cgroup -maxdepth 2 -name "kvm.payload.kva-*"'], {
      encoding: 'utf8',
    })
    expect(left).to.equal('')
  })

  it('can be managed with every command of the tutorial', async () => {
    const lines = machineShell({ address, systemd: false })
      .replaceAll('http://127.0.0.1:8080', gateway.url)
      .replaceAll('/etc/berth/', `${gateway.directory}/`)
    const { code, said } = await bash(lines)
    expect(code, said).to.equal(0)
    for (const result of tutorialResults) expect(said).to.match(result)
    const tasks = dataOf<Record<string, unknown>[]>(await gateway.request('GET', '/tasks'))
    const kept = tasks.filter(({ container_name: name }) => name === 'web1')
    expect(kept.map(({ status }) => status).filter((status) => status !== 'done')).to.deep.equal([])
  })
})

/** Runs the commands in a child process. The test must not block, because it answers their HTTP requests. */
async function bash(lines: string): Promise<{ code: number; said: string }> {
  const child = spawn('bash', ['-c', lines], { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += String(chunk)))
  const [code] = (await once(child, 'close')) as [number]
  return { code, said }
}
