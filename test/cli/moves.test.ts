import { expect } from 'chai'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { BerthTerminal, startBerth, type ExitResult } from '../support/cli/berth.js'
import { Tmux } from '../support/cli/tmux.js'
import { startTestGateway, type TestGateway } from '../support/gateway/test-gateway.js'
import { waitFor } from '../support/wait.js'

const hosts = ['host-a', 'host-b'] as const

/** Tests commands that show a plan or a screen before they change something. */
describe('the command line with two hosts', () => {
  let gateway: TestGateway
  let env: Record<string, string>
  before(async () => {
    gateway = await startTestGateway({ hosts })
    for (const id of hosts) await gateway.fleet.work(id)
    env = { BERTH_URL: gateway.url, BERTH_KEY: gateway.adminKey, HOME: '/nonexistent' }
  })
  after(() => gateway.close())
  afterEach(async () => {
    gateway.fleet.agentOf('host-a').observer = undefined
    for (const id of hosts) await gateway.fleet.hosts.updateHost(id, { draining: false })
  })

  const berth = (...args: string[]): Promise<ExitResult> => startBerth(args, env).ended
  const hostOf = ({ uuid }: Guest): string | undefined => gateway.fleet.view.findGuest(uuid)?.hostId

  async function addGuest(name: string): Promise<Guest> {
    const guest = await gateway.fleet.addGuest({ name })
    gateway.fleet.agentOf('host-a').host.contents.set(guest.uuid, `disk of ${name}`)
    return guest
  }

  /** Makes each copy of a disk wait, except the first ones. @returns a function that ends the wait */
  function holdCopies(free = 0): () => void {
    const held = new AbortController()
    const released = once(held.signal, 'abort')
    let copies = 0
    gateway.fleet.agentOf('host-a').observer = async ({ step, phase }) => {
      if (step === 'copy' && phase === 'before-run' && ++copies > free) await released
    }
    return () => held.abort()
  }

  it('moves nothing without a confirmation', async () => {
    const guest = await addGuest('web1')
    const { code, err } = await berth('migrate', 'web1')
    expect([code, err.split('\n')[0]]).to.deep.equal([2, 'Guest web1 moves from host host-a to host host-b.'])
    expect(err).to.contain('confirm with --yes')
    const short = await berth('migrate', 'web1', '--max-downtime-ms', '5', '--yes')
    expect([short.code, short.err]).to.satisfy(
      ([code, text]: [number, string]) => code !== 0 && text.includes('max_downtime_ms'),
    )
    const terminal = new BerthTerminal(['migrate', 'web1', 'host-b'], env)
    await terminal.shows('Move web1 now? [y/N]')
    terminal.type('n\r')
    expect(await terminal.ended, terminal.text).to.equal(1)
    expect(terminal.text).to.contain('nothing was changed')
    expect(hostOf(guest)).to.equal('host-a')
  })

  it('moves a guest after a confirmation, and waits until the move has ended', async () => {
    const terminal = new BerthTerminal(['migrate', 'web1', 'host-b'], env)
    await terminal.shows('[y/N]')
    terminal.type('y\r')
    expect(await terminal.ended, terminal.text).to.equal(0)
    expect(terminal.text).to.contain('migrate web1: done')
    expect(gateway.fleet.view.findGuest('web1')?.hostId).to.equal('host-b')
  })

  it('drains a host, stops following the drain after Ctrl-C, and follows the drain again in a second run', async () => {
    const guest = await addGuest('web2')
    const release = holdCopies()
    const first = startBerth(['drain', 'host-a', '--yes'], env)
    await waitFor(() => gateway.fleet.view.findHost('host-a')?.draining, { what: 'the drain' })
    await waitFor(async () => (await berth('host', 'drain-status', 'host-a')).out.includes('active'), {
      what: 'the move of the guest',
    })
    first.child.kill('SIGINT')
    const { code, err } = await first.ended
    expect(code, err).to.equal(130)
    expect(err).to.match(/^GUEST +WILL +NOTE\nweb2 +move to host-b +-\n/)
    expect(err).to.contain('follow it with: berth drain host-a; cancel it with: berth host cancel-drain host-a')
    const second = startBerth(['drain', 'host-a'], env)
    await waitFor(() => second.err().includes('already being drained'), { what: 'the drain in progress' })
    release()
    const ended = await second.ended
    expect(ended.code, ended.err).to.equal(0)
    expect(ended.err).to.contain('web2: moved to host-b').and.to.contain('drain host-a: done')
    expect(hostOf(guest)).to.equal('host-b')
  })

  it('shows the plan of a drain in a terminal, then each moved guest and the progress while others move', async () => {
    for (const name of ['shop', 'shop-db', 'mail', 'wiki']) await addGuest(name)
    const release = holdCopies(1)
    const directory = mkdtempSync(join(tmpdir(), 'btest-cli-drain-'))
    const tmux = new Tmux('btest-cli-drain', { ...env, PATH: process.env['PATH'] ?? '' }, join(directory, 'terminal'))
    try {
      await tmux.shows(/^\$ ?$/m)
      tmux.enter('berth drain host-a')
      await tmux.shows(/^GUEST +WILL +NOTE *\n(\S+ +move to host-b .*\n){4}Drain host host-a now\?.* \[y\/N\]/m)
      tmux.enter('y')
      await tmux.shows(/^\S+: moved to host-b\ndrain host-a: 1 of 4 done, 2 active$/m)
      tmux.picture('drain')
      release()
      await tmux.shows(/^drain host-a: done; open the host again with: berth host undrain host-a$/m)
      expect(tmux.screen().match(/^\S+: moved to host-b$/gm)).to.have.lengthOf(4)
      expect(tmux.screen()).not.to.contain('active') // the line of progress is removed at the end
    } finally {
      release()
      tmux.close()
      rmSync(directory, { recursive: true })
    }
  })

  it('fails if guests stay on a drained host', async () => {
    await gateway.fleet.addGuest({ virtualization: 'kvm', name: 'machine' })
    const { code, err } = await berth('drain', 'host-a', '--yes')
    expect(code, err).to.equal(1)
    expect(err).to.match(/^machine +stay +the virtual machine cannot move while it runs/m)
    expect(err)
      .to.match(/^machine: failed: /m)
      .and.to.contain('1 of 1 guests stay on the host')
  })

  it('changes the settings of a host only if the host is named, because there are several', async () => {
    const args = ['security', 'update-settings', '--no-auto-shutdown']
    const err = 'berth: missing: --host, because the fleet has several hosts\none of: host-a, host-b\n'
    expect(await berth(...args)).to.deep.equal({ code: 2, out: '', err })
    expect((await berth(...args, '--host', 'host-b', '-o', 'json')).out).to.contain('host-b')
    expect((await berth('security', 'settings')).code).to.equal(0)
    const key = await gateway.makeKey({ scopes: ['security:settings'] }) // cannot list the hosts
    const { code, err: reason } = await startBerth(args, { ...env, BERTH_KEY: key }).ended
    expect(code, reason).to.equal(0)
  })

  it('checks the guests of all hosts for abuse if no host is named', async () => {
    const { code, out, err } = await berth('security', 'check', '-o', 'json')
    expect(code, err).to.equal(0)
    const all = [...gateway.fleet.view.guests()].filter(({ guest }) => guest.status === 'running')
    expect(out).to.contain(`${all.length} containers checked`)
  })

  it('explains why a port cannot be reached', async () => {
    await addGuest('web3')
    const { probe } = gateway.fleet.agentOf('host-a').host
    probe.listeners = [{ port: 8080, isReachable: true }]
    const failed = await berth('why', 'web3', '80', '--source', '192.0.2.7')
    expect([failed.code, failed.err]).to.deep.equal([
      1,
      'berth: port 80 of web3 cannot be reached: no program in the guest listens on the port\n' +
        'the guest listens on: 8080\n',
    ])
    expect(failed.out).to.match(/^yes +The guest is running\nNO +A program in the guest listens on the port$/m)
    probe.listeners = [{ port: 22, isReachable: true }]
    const reached = await berth('why', 'web3', '22')
    expect(reached.code, reached.err).to.equal(0)
    expect(reached.out).to.match(/^port 22 of web3 can be reached at any address of the host, port \d+$/m)
    expect((await berth('why', 'web3', 'http')).code).to.equal(2)
  })

  it('prints the usage of hosts only once if the output is not a terminal', async () => {
    const { code, out, err } = await berth('top')
    expect(code, err).to.equal(0)
    expect(out).to.match(/^HOST +STATUS +CPU %.*\nhost-[ab] +online .*\nhost-[ab] +online .*\n\nID +GUEST/)
  })

  it('shows the usage on the screen of a terminal until q is pressed, and restores the terminal', async () => {
    const terminal = new BerthTerminal(['top'], env)
    await terminal.shows(/HOST +STATUS/)
    expect(terminal.text.startsWith('\u001b[?1049h')).to.equal(true)
    terminal.type('q')
    expect(await terminal.ended).to.equal(0)
    expect(terminal.text.endsWith('\u001b[?1049l')).to.equal(true)
  })
})
