import { expect } from 'chai'
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { startBerth, type ExitResult, type RunningCommand } from '../support/cli/berth.js'
import { Browser, makeAdmin, password } from '../support/gateway/browser.js'
import { startTestGateway, type TestGateway } from '../support/gateway/test-gateway.js'
import { waitFor } from '../support/wait.js'

describe('the command line with contexts', () => {
  let gateway: TestGateway
  let home: string
  before(async () => {
    gateway = await startTestGateway()
    home = await mkdtemp(join(tmpdir(), 'btest-cli-contexts-'))
  })
  after(async () => {
    await gateway.close()
    await rm(home, { recursive: true, force: true })
  })

  const start = (args: readonly string[], env: Record<string, string> = {}, input = ''): RunningCommand =>
    startBerth(args, { HOME: home, BERTH_URL: '', BERTH_KEY: '', ...env }, input)
  const withKey = () => ({ BERTH_URL: gateway.url, BERTH_KEY: gateway.adminKey })
  const runOwn = (args: readonly string[], input = ''): Promise<ExitResult> => start(args, {}, input).ended
  const config = (): string => join(home, '.config/berth/config.yaml')

  it('says how to log in if there are no contexts', async () => {
    const err = 'no context is stored; log in to a gateway: berth login URL\n'
    expect(await runOwn(['context', 'list'])).to.deep.equal({ code: 0, out: '', err })
    expect(await runOwn(['context', 'list', '-o', 'json'])).to.deep.equal({ code: 0, out: '[]\n', err })
  })

  it('checks a key, and stores it in a file that only the user can read', async () => {
    const { code, out, err } = await runOwn(['login', `${gateway.url}/`, '--name', 'lab'], `${gateway.adminKey}\n`)
    expect(code, err).to.equal(0)
    expect(out).to.contain('(Berth 0.0.0-test)')
    expect((await stat(config())).mode & 0o777).to.equal(0o600)
    expect((await runOwn(['host', 'list', '-q'])).out).to.equal('host-a\n')
  })

  it('does not store a key that the gateway refuses', async () => {
    const before = await readFile(config(), 'utf8')
    const { code, err } = await runOwn(['login', gateway.url, '--name', 'wrong', '--key-file', '-'], 'wrong\n')
    expect(code).to.equal(4)
    expect(err).to.contain('(unauthorized)')
    expect(await readFile(config(), 'utf8')).to.equal(before)
  })

  it('logs in through the panel, and deletes the key at the logout', async () => {
    await makeAdmin(gateway, 'cli-admin')
    const browser = new Browser(gateway)
    await browser.login('cli-admin', password)
    const { ended, err } = start(['login', gateway.url, '--name', 'web', '--no-browser'])
    await waitFor(() => /type this code: \S+/.test(err()), { what: () => `a code in ${err()}` })
    expect(err()).to.contain(`${gateway.url}/#/cli-login`)
    const [, user_code] = /type this code: (\S+)/.exec(err())!
    const body = { user_code, rights: 'all' }
    expect((await browser.request('POST', '/cli-logins/approve', { body })).status).to.equal(201)
    const { code, out } = await ended
    expect(code, err()).to.equal(0)
    expect(out).to.contain('The context web is stored')
    const keyNames = async () => (await start(['api-key', 'list', '--columns', 'name']).ended).out
    expect(await keyNames()).to.contain(`berth on ${hostname()}`)
    const left = await runOwn(['logout'])
    expect([left.code, left.out]).to.deep.equal([
      0,
      'Logged out. The context web was removed, and its API key was deleted.\n',
    ])
    expect((await start(['api-key', 'list', '--columns', 'name'], withKey()).ended).out).not.to.contain('berth on ')
    expect((await runOwn(['host', 'list', '--context', 'web'])).code).to.equal(3)
  })

  it('ends with an error and stores nothing if the login is denied in the panel', async () => {
    const before = await readFile(config(), 'utf8')
    const { ended, err } = start(['login', gateway.url, '--name', 'denied', '--no-browser'])
    await waitFor(() => /type this code: \S+/.test(err()), { what: () => `a code in ${err()}` })
    const [, code = ''] = /type this code: (\S+)/.exec(err())!
    expect((await start(['cli-login', 'deny', '--user-code', code], withKey()).ended).code).to.equal(0)
    const end = await ended
    expect([end.code, end.err]).to.satisfy(
      ([exit, text]: [number, string]) => exit === 4 && text.includes('(cli_login_denied)'),
    )
    expect(await readFile(config(), 'utf8')).to.equal(before)
  })

  it('lists, chooses and removes contexts', async () => {
    await runOwn(['login', gateway.url, '--name', 'second'], gateway.adminKey)
    await runOwn(['context', 'use', 'lab'])
    const { out } = await runOwn(['context', 'list', '-o', 'json'])
    const rows = JSON.parse(out) as { name: string; current: boolean; key: string }[]
    expect(rows.map(({ name, current }) => [name, current])).to.deep.equal([
      ['lab', true],
      ['second', false],
    ])
    expect(out).not.to.contain(gateway.adminKey)
    expect((await start(['host', 'list', '-q'], { BERTH_CONTEXT: 'second' }).ended).out).to.equal('host-a\n')
    expect((await runOwn(['context', 'remove', 'lab'])).code).to.equal(0)
    expect((await runOwn(['host', 'list', '--context', 'lab'])).code).to.equal(3)
  })

  it('never sends the key of a context to the server in BERTH_URL', async () => {
    const { code, err } = await start(['host', 'list'], { BERTH_URL: 'http://127.0.0.1:9', BERTH_KEY: '' }).ended
    expect([code, err]).to.deep.equal([2, 'berth: BERTH_URL is set without BERTH_KEY\nset both, or use a context\n'])
  })
})
