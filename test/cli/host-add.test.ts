import { expect } from 'chai'
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { joinGateway } from '../../agent/enrollment/join.js'
import { HostStore } from '../../gateway/fleet/host-store.js'
import { installReportPath, parseJoinToken } from '../../shared/join-token.js'
import { BerthTerminal, startBerth, type ExitResult } from '../support/cli/berth.js'
import { postToJoinEndpoint } from '../support/gateway/join-endpoint.js'
import { startTestGateway, type TestGateway } from '../support/gateway/test-gateway.js'
import { LabAgent } from '../support/memory/lab-agent.js'
import { freePort } from '../support/ports.js'
import { waitFor } from '../support/wait.js'

interface Created {
  readonly join_token: string
}

/** Adds hosts whose installation script is replaced by its reports, and whose agents are real. */
describe('berth host add', () => {
  let gateway: TestGateway
  let directory: string
  let env: Record<string, string>
  let agent: LabAgent | undefined
  before(async () => {
    gateway = await startTestGateway()
    directory = await mkdtemp(join(tmpdir(), 'btest-cli-host-'))
    env = { BERTH_URL: gateway.url, BERTH_KEY: gateway.adminKey, HOME: '/nonexistent' }
  })
  after(async () => {
    await agent?.destroy()
    await gateway.close()
    await rm(directory, { recursive: true, force: true })
  })

  const berth = (...args: string[]): Promise<ExitResult> => startBerth(args, env).ended

  /** Reports a step as the installation script does. */
  async function report(token: string, step: string, message = ''): Promise<void> {
    const body = JSON.stringify({ token, step, message })
    const { status, text } = await postToJoinEndpoint(parseJoinToken(token).address, installReportPath, body)
    expect(status, text).to.equal(200)
  }

  async function addPending(name: string): Promise<Created> {
    const { code, out, err } = await berth('host', 'add', name, '--no-wait', '-o', 'json')
    expect(code, err).to.equal(0)
    expect(err).to.contain(`follow it with: berth host add ${name} --follow`)
    return JSON.parse(out) as Created
  }

  it('prints the command, and shows each step until the host is online', async () => {
    const terminal = new BerthTerminal(['host', 'add', 'node1', '--public-address', 'node1.example.com'], env)
    await terminal.shows('Run this command as root on node1.')
    await terminal.shows('add node1: waiting for the command to be run on the host (step 1 of 5)')
    const token = /berth_jt_[\w.-]+/.exec(terminal.text)![0]
    await report(token, 'checking')
    await terminal.shows('node1: the command was started')
    await report(token, 'installing', 'berth-agent')
    await terminal.shows('add node1: installing the agent: berth-agent (step 3 of 5)')
    await report(token, 'joining')
    await terminal.shows('node1: the agent is installed')
    const port = await freePort()
    await joinGateway(token, directory, port)
    await report(token, 'waiting')
    await terminal.shows('add node1: the gateway is connecting to the agent (step 5 of 5)')
    agent = await LabAgent.start({ identityDir: directory, listen: `127.0.0.1:${port}` })
    expect(await terminal.ended, terminal.text).to.equal(0)
    expect(terminal.text).to.contain('add node1: done; create a guest on it with: berth guest create')
    const { out } = await berth('host', 'get', 'node1', '-o', 'json')
    expect(JSON.parse(out)).to.include({ status: 'online', public_address: 'node1.example.com' })
  })

  it('prints only the command to the standard output', async () => {
    const { code, out, err } = await berth('host', 'add', 'node2', '--no-wait')
    expect(code, err).to.equal(0)
    expect(out).to.match(/^echo berth_jt_\S+ \| node .*\n$/)
    expect((await berth('host', 'add', 'node-quiet', '-q')).out).to.match(/^\S+\n$/)
  })

  it('fails with the reason that the host reports, and can follow the next attempt', async () => {
    const { join_token: token } = await addPending('node3')
    await report(token, 'failed', 'port 7443 is in use by nginx')
    const again = startBerth(['host', 'add', 'node3', '--follow'], env)
    await waitFor(() => again.err().includes('nginx. Waiting for the command to be run again.'), {
      what: 'the failure',
    })
    await report(token, 'checking')
    await report(token, 'failed', 'port 7443 is in use by apache')
    const { code, err } = await again.ended
    expect(code, err).to.equal(1)
    expect(err).to.contain('the installation of host node3 failed: port 7443 is in use by apache')
    expect(err).to.contain('run the command again, and follow it with: berth host add node3 --follow')
  })

  it('stops waiting after Ctrl-C or at the time limit, and says how to continue', async () => {
    await addPending('node4')
    const started = startBerth(['host', 'add', 'node5'], env)
    await waitFor(() => started.out().endsWith('\n'), { what: () => `the command: ${started.err()}` })
    started.child.kill('SIGINT')
    const { code, err } = await started.ended
    expect([code, err.includes('follow it with: berth host add node5 --follow')], err).to.deep.equal([130, true])
    const late = await berth('host', 'add', 'node4', '--follow', '--timeout', '1s')
    expect([late.code, late.err.split('\n')[1]]).to.deep.equal([6, 'berth: host node4 did not come online in time'])
  })

  it('ends when the installation command expires, even when it follows an existing host', async () => {
    await addPending('node6')
    const following = startBerth(['host', 'add', 'node6', '--follow'], env)
    const adding = startBerth(['host', 'add', 'node7'], env)
    await waitFor(() => following.err().includes('Following') && adding.out().endsWith('\n'), { what: 'the commands' })
    for (const name of ['node6', 'node7']) await expire(name)
    const late = await berth('host', 'add', 'node6', '--follow')
    for (const [name, { code, err }] of [
      ['node6', await following.ended],
      ['node7', await adding.ended],
      ['node6', late],
    ] as const) {
      expect(code, err).to.equal(6)
      expect(err)
        .to.contain(`berth: the command for host ${name} expired before the host joined\n`)
        .and.contain(`create another command: berth host create-join-token ${name}; then follow it with`)
    }
    const { out } = await berth('host', 'create-join-token', 'node6')
    expect(out).to.contain('berth_jt_')
    const waiting = await berth('host', 'add', 'node6', '--follow', '--timeout', '1s')
    expect(waiting.err).to.contain('did not come online in time')
  })

  it('ends when nobody reads its output, and says how to continue', async () => {
    const run = `"${process.execPath}" dist/cli/main.js host add node8`
    const script = `${run} | head -n 1; echo "codes \${PIPESTATUS[*]}"; ${run} --follow | true; echo "codes \${PIPESTATUS[*]}"`
    const options = { env: { ...process.env, ...env } }
    const { stdout, stderr } = await promisify(execFile)('bash', ['-c', script], options)
    expect(stdout).to.match(/^echo berth_jt_\S+ .*\ncodes 0 0\ncodes 0 0\n$/)
    const notice =
      'no longer waiting, because nobody reads the output; the installation continues; follow it with: berth'
    expect(stderr.split(notice), stderr).to.have.length(3)
  })

  /** Changes the time at which the newest command of a host expires to a past time. */
  async function expire(name: string): Promise<void> {
    const { id } = gateway.fleet.view.hosts().find((host) => host.name === name)!
    await new HostStore(gateway.store).update(id, (record) => ({ ...record, joinExpiresAtMs: 1 }))
  }

  it('refuses a name that is taken, an invalid name, and flags that --follow would ignore', async () => {
    const taken = await berth('host', 'add', 'host-a')
    expect([taken.code, taken.err.includes('berth host create-join-token host-a')]).to.deep.equal([5, true])
    expect((await berth('host', 'add', 'no name')).code).to.equal(2)
    expect((await berth('host', 'add', 'nothing', '--follow')).code).to.equal(3)
    expect((await berth('host', 'add', 'host-a', '--follow', '--address', 'x:1')).code).to.equal(2)
    expect((await berth('host', 'add')).code).to.equal(2)
  })
})
