import { expect } from 'chai'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { conflict } from '../../shared/errors.js'
import type { Body } from '../support/body.js'
import { BerthTerminal, startBerth, type ExitResult, type RunningCommand } from '../support/cli/berth.js'
import { exportedArchive, exportedFiles } from '../support/guests/exported-archive.js'
import { startTestGateway, type TestGateway } from '../support/gateway/test-gateway.js'
import { freePort } from '../support/ports.js'
import { waitFor } from '../support/wait.js'

const createFlags = ['--image', 'debian-12', '--ram', '64m', '--vcpu', '0.1', '--disk', '1g', '--no-start']

describe('the command line', () => {
  let gateway: TestGateway
  let home: string
  before(async () => {
    gateway = await startTestGateway()
    home = await mkdtemp(join(tmpdir(), 'btest-cli-'))
  })
  after(async () => {
    await gateway.close()
    await rm(home, { recursive: true, force: true })
  })

  const start = (args: readonly string[], env: Record<string, string> = {}, input = ''): RunningCommand => {
    const connection = { BERTH_URL: gateway.url, BERTH_KEY: gateway.adminKey }
    return startBerth(args, { HOME: home, ...connection, ...env }, input)
  }
  const berth = (...args: string[]): Promise<ExitResult> => start(args).ended
  const json = async (...args: string[]): Promise<Body> => {
    const { code, out, err } = await berth(...args, '-o', 'json')
    expect(code, err).to.equal(0)
    return JSON.parse(out)
  }

  describe('with a host whose agent does not run tasks', () => {
    it('with --no-wait, prints the answer of the gateway and does not wait for the task', async () => {
      const created = await json('guest', 'create', 'cli-a', ...createFlags, '--no-wait')
      expect(created.name).to.equal('cli-a')
      expect((await json('task', 'get', String(created.task_id))).status).to.equal('pending')
    })

    it('stops waiting for the task at the time limit, and prints the command to follow the task later', async () => {
      const { code, out, err } = await berth('guest', 'create', 'cli-b', ...createFlags, '--timeout', '1s')
      expect(code, err).to.equal(6)
      expect(out).to.match(/^ssh_password {2}\S{8,}$/m)
      expect(err).to.match(/follow it with: berth task get \S+; cancel it with: berth task delete \S+/)
    })

    it('stops waiting for the task after Ctrl-C, and does not cancel the task', async () => {
      const { child, ended, out } = start(['guest', 'create', 'cli-c', ...createFlags, '-o', 'json'])
      await waitFor(() => out().includes('}'), { what: 'the answer of the creation' })
      const { task_id: taskId } = JSON.parse(out()) as { task_id: string }
      child.kill('SIGINT')
      const { code, err } = await ended
      expect(code).to.equal(130)
      expect(err).to.contain(`berth task get ${taskId}`)
      expect((await json('task', 'get', taskId)).status).to.equal('pending')
    })

    it('fails if the task is canceled while the command waits for this task', async () => {
      const { ended, out } = start(['guest', 'create', 'cli-canceled', ...createFlags, '-o', 'json'])
      await waitFor(() => out().includes('}'), { what: 'the answer of the creation' })
      const { task_id: taskId } = JSON.parse(out()) as { task_id: string }
      expect((await berth('task', 'delete', taskId)).code).to.equal(0)
      const { code, err } = await ended
      expect(code, err).to.equal(1)
      expect(err).to.contain('was canceled: create cli-canceled')
    })
  })

  describe('with a host whose agent runs tasks', () => {
    before(() => gateway.fleet.work('host-a'))

    it('waits until a guest is created', async () => {
      const { code, err } = await berth('guest', 'create', 'web1', ...createFlags)
      expect(code, err).to.equal(0)
      expect(err).to.contain('create web1: done')
      expect((await json('guest', 'get', 'web1')).ram_mb).to.equal(64)
    })

    it('imports a guest from a file or from the standard input, and waits for its task', async () => {
      const file = join(home, 'imported.tar.gz')
      await writeFile(file, exportedArchive('cli-file'))
      const fromFile = await berth('guest', 'import', file, '--vcpu', '0.1')
      expect(fromFile.code, fromFile.err).to.equal(0)
      expect(fromFile.err).to.contain('create cli-file: done')
      const flags = ['--name', 'cli-pipe', '--ram', '64m', '--vcpu', '0.1']
      // The input must be a string, so the archive passes through another program.
      const run = `"${process.execPath}" "${resolve('dist/cli/main.js')}" guest import - ${flags.join(' ')}`
      const env = { ...process.env, HOME: home, BERTH_URL: gateway.url, BERTH_KEY: gateway.adminKey }
      await promisify(execFile)('bash', ['-c', `cat "${file}" | ${run}`], { env })
      expect(await json('guest', 'get', 'cli-pipe')).to.include({ ram_mb: 64, template: 'imported' })
    })

    it('fails if the archive to import is missing or refused, and creates no guest', async () => {
      const missing = await berth('guest', 'import', join(home, 'no-such-file'))
      expect(missing).to.include({ code: 2, err: `berth: ${join(home, 'no-such-file')}: there is no such file\n` })
      const file = join(home, 'refused.tar.gz')
      await writeFile(file, exportedFiles)
      const refused = await berth('guest', 'import', file, '--name', 'cli-refused')
      expect(refused.code, refused.err).to.equal(2)
      expect(refused.err).to.contain('(image_invalid)')
      expect((await berth('guest', 'get', 'cli-refused')).code).to.equal(3)
    })

    it('prints a list as a table, JSON, YAML, CSV or only ids, and with chosen columns', async () => {
      const rows = (await json('guest', 'list')) as unknown as { id: number; name: string }[]
      const { id } = rows.find(({ name }) => name === 'web1')!
      expect((await berth('guest', 'list')).out).to.match(/^ID +NAME +STATUS .*\n(.*\n)*\d+ +web1 +stopped /)
      expect((await berth('guest', 'list', '-o', 'yaml')).out).to.contain('name: web1')
      expect((await berth('guest', 'list', '-o', 'csv', '--columns', 'name,status')).out).to.match(
        /^name,status\r\n(.*\r\n)*web1,stopped\r\n/,
      )
      expect((await berth('guest', 'list', '--name', 'web1', '-q')).out).to.equal(`${id}\n`)
      const filter = '.[] | select(.name == "web1") | .status'
      expect((await berth('guest', 'list', '--jq', filter)).out).to.equal('stopped\n')
      expect((await berth('api', 'GET', '/containers/web1', '--jq', '.data.name')).out).to.equal('web1\n')
      const wrong = await berth('guest', 'list', '--jq', '.[')
      expect([wrong.code, wrong.err]).to.satisfy(
        ([code, text]: [number, string]) => code === 2 && text.startsWith('berth: --jq: jq: error'),
      )
      expect((await berth('guest', 'list', '--columns', 'nam')).err).to.contain('--columns: nam does not exist')
    })

    it('creates nothing if jq is missing or refuses the filter, and prints the complete result if jq fails later', async () => {
      const create = (name: string, filter: string, env = {}): Promise<ExitResult> =>
        start(['guest', 'create', name, ...createFlags, '--jq', filter], env).ended
      expect((await create('cli-jq', '.[')).code).to.equal(2)
      const missing = await create('cli-jq', '.', { PATH: '/nonexistent' })
      expect([missing.code, missing.err]).to.satisfy(
        ([code, text]: [number, string]) => code === 1 && text.includes('install the program jq'),
      )
      expect((await berth('guest', 'get', 'cli-jq')).code).to.equal(3)
      const { code, out, err } = await create('cli-jq', '.ssh_password | error')
      expect(code, err).to.equal(1)
      expect(JSON.parse(out).ssh_password).to.match(/^\S{8,}$/)
      expect(err).to.match(/^berth: --jq: jq: error/)
    })

    it('accepts the beginning of a UUID, and suggests a similar name for a wrong name', async () => {
      const { uuid } = await json('guest', 'get', 'web1')
      expect((await json('guest', 'get', String(uuid).slice(0, 13))).name).to.equal('web1')
      const { code, err } = await berth('guest', 'get', 'web11')
      expect(code).to.equal(3)
      expect(err).to.equal('berth: guest web11 not found\ndid you mean web1?\n')
      expect((await berth('host', 'get', 'hots-a')).err).to.contain('did you mean host-a?')
    })

    it('converts flags to fields of the request, and reads a request body from a file', async () => {
      expect((await berth('guest', 'set-expiry', 'web1', '--expires-at', '+30d')).code).to.equal(0)
      const file = join(home, 'limits.json')
      await writeFile(file, JSON.stringify({ network_up_mbps: 30 }))
      const flags = ['--network-down-mbps', '50', '--data', `@${file}`]
      expect((await berth('guest', 'resize', 'web1', ...flags)).code).to.equal(0)
      const { network_down_mbps: down, network_up_mbps: up, expires_at: expiry } = await json('guest', 'get', 'web1')
      expect([down, up]).to.deep.equal([50, 30])
      expect(expiry).to.match(/^\d{4}-/)
      const port = ['--guest-port', '80', '--protocol', 'tcp', '--description', 'web']
      expect((await berth('port', 'add', 'web1', ...port)).out).to.match(/^tcp .* 80 .* web$/m)
    })

    it('resolves names in flags that need ids', async () => {
      const { uuid } = await json('guest', 'get', 'web1')
      const { key, ...created } = await json('api-key', 'create', 'cli-bound', '--guest', 'web1')
      expect(created['container_uuids'], JSON.stringify(key)).to.deep.equal([uuid])
    })

    for (const [name, args, code, text] of [
      ['a name that is taken', ['guest', 'create', 'web1', ...createFlags], 5, 'a container named web1 already exists'],
      ['a field that the gateway refuses', ['guest', 'create', 'x y', ...createFlags], 2, '(invalid_field)'],
      [
        'a flag with a wrong value',
        ['guest', 'create', 'x', '--image', 'debian-12', '--ram', 'much'],
        2,
        '--ram: much: not a size',
      ],
      ['a missing flag', ['guest', 'create', 'x'], 2, 'missing: --image'],
      ['an unknown flag', ['guest', 'list', '--nmae', 'x'], 2, "unknown option '--nmae'"],
      ['an unknown command', ['guest', 'lst'], 2, 'did you mean berth guest list?'],
      ['an unknown task', ['task', 'get', 'no-such-task'], 3, '(not_found)'],
      ['an unknown context', ['guest', 'list', '--context', 'nowhere'], 3, 'context nowhere does not exist'],
      ['a refused raw request', ['api', 'GET', '/api/v1/tasks/none'], 3, '(not_found)'],
    ] as const)
      it(`ends with the exit code ${code} after ${name}`, async () => {
        const ended = await berth(...args)
        expect(ended.err).to.contain(text)
        expect(ended.code).to.equal(code)
        expect(ended.out).to.equal('')
      })

    it('fails with the reason of a failed task', async () => {
      await json('guest', 'create', 'cli-broken', ...createFlags)
      const { faults } = gateway.fleet.agentOf('host-a').host
      faults.start = () => {
        throw conflict('guest_broken', 'the guest is broken')
      }
      const { code, err } = await berth('guest', 'start', 'cli-broken')
      delete faults.start
      expect([code, err]).to.deep.equal([1, 'berth: start cli-broken failed: the guest is broken (guest_broken)\n'])
    })

    it('waits for all tasks of a batch', async () => {
      const { code, err } = await berth('guest', 'batch', '--action', 'stop', '--guest', 'web1,cli-a')
      expect(code, err).to.equal(0)
      expect(err).to.contain('stop web1: done').and.to.contain('stop cli-a: done')
    })

    it('prints raw answers and events', async () => {
      const answer: Body = JSON.parse((await berth('api', 'get', 'containers/web1')).out)
      expect(answer.data.name).to.equal('web1')
      const { child, ended, out } = start(['events', '-f', '--kinds', 'task', '-o', 'json'])
      await waitFor(
        async () => {
          await berth('guest', 'stop', 'web1')
          return out().includes('"task.done"')
        },
        { what: 'an event of the task' },
      )
      child.kill('SIGTERM')
      await ended
    })

    it('reports the problems of the fleet', async () => {
      const { code, out, err } = await berth('doctor')
      expect([code, err]).to.deep.equal([1, `berth: ${out.split('\n- ').length} problems\n`])
      expect(out).to.match(/^- Task start cli-broken failed at .*: the guest is broken \(guest_broken\)\n {2}See it: /m)
      const { problems, unchecked }: Body = JSON.parse((await berth('doctor', '-o', 'json')).out)
      expect((problems as { code: string }[]).map((problem) => problem.code)).to.include('task_failed')
      expect(unchecked).to.deep.equal([])
      const key = await gateway.makeKey({ scopes: ['host:read'] })
      const partial = await start(['doctor'], { BERTH_KEY: key }).ended
      expect(partial.err).to.contain('Not checked: failed tasks (').and.to.contain('Not checked: TLS (')
    })

    it('completes commands, flags, values and names', async () => {
      const complete = async (...words: string[]): Promise<string[]> =>
        (await berth('complete', '--', ...words)).out.split('\n').filter(Boolean)
      expect(await complete('gu')).to.deep.equal(['guest'])
      expect(await complete('guest', 'rest')).to.deep.equal(['restart'])
      expect(await complete('guest', 'create', 'x', '--ra')).to.deep.equal(['--ram'])
      expect(await complete('guest', 'create', '--virtualization', '')).to.deep.equal(['lxc', 'kvm'])
      expect(await complete('guest', 'stop', 'we')).to.deep.equal(['web1'])
      expect(await complete('-o', 'json', 'ssh', 'we')).to.deep.equal(['web1'])
      expect(await complete('guest', 'create', 'x', '--host', 'h')).to.deep.equal(['host-a'])
      expect(await complete('-o', 'c')).to.deep.equal(['csv'])
      expect(await complete('guest', 'stop', '--tim')).to.deep.equal(['--timeout'])
      expect(await complete('--context', 'missing', 'guest', 'stop', 'we')).to.deep.equal([])
      expect(await complete('constructor', '')).to.deep.equal([])
    })
  })

  it('can be downloaded from the gateway as one file of the same version', async () => {
    const response = await fetch(`${gateway.url}/cli`)
    expect([response.status, response.headers.get('content-disposition')]).to.deep.equal([
      200,
      'attachment; filename="berth"',
    ])
    const file = join(home, 'berth')
    const text = await response.text()
    expect(text).not.to.contain('@BERTH_VERSION@')
    await writeFile(file, text, { mode: 0o755 })
    const run = promisify(execFile)
    expect((await run(file, ['complete', '--', 'guest', 'rest'])).stdout).to.equal('restart\n')
    expect((await run(file, ['--version'])).stdout).to.equal('0.0.0-test\n')
    const env = { ...process.env, HOME: home, BERTH_URL: gateway.url, BERTH_KEY: gateway.adminKey }
    expect((await run(file, ['host', 'list', '-q', '-o', 'yaml'], { env })).stdout).to.equal('host-a\n')
  })

  it('is an npm package, which installs the command', async () => {
    const run = promisify(execFile)
    const { stdout: packed } = await run('npm', ['pack', resolve('dist/npm'), '--pack-destination', home])
    await run('npm', ['install', '--global', '--offline', '--prefix', home, join(home, packed.trim())])
    const { version }: Body = JSON.parse(await readFile('package.json', 'utf8'))
    expect((await run(join(home, 'bin/berth'), ['--version'])).stdout).to.equal(`${String(version)}\n`)
    const env = { ...process.env, HOME: home, BERTH_URL: gateway.url, BERTH_KEY: gateway.adminKey }
    expect((await run(join(home, 'bin/berth'), ['host', 'list', '-q'], { env })).stdout).to.equal('host-a\n')
    expect((await stat(join(home, 'share/man/man1/berth.1'))).size).to.be.above(10_000)
  })

  describe('in other environments', () => {
    it('ends without an error message if nobody reads its output', async () => {
      const script = `${process.execPath} dist/cli/main.js host list -o json | head -c 1; echo " $PIPESTATUS"`
      const env = { ...process.env, HOME: home, BERTH_URL: gateway.url, BERTH_KEY: gateway.adminKey }
      const { stdout, stderr } = await promisify(execFile)('bash', ['-c', script], { env })
      expect([stdout, stderr]).to.deep.equal(['[ 0\n', ''])
    })

    it('writes its complete output to a pipe whose reader is slow', async () => {
      const whole = join(home, 'whole.json')
      const run = `${process.execPath} dist/cli/main.js api GET /openapi.json`
      const env = { ...process.env, HOME: home, BERTH_URL: gateway.url, BERTH_KEY: gateway.adminKey }
      const script = `${run} >${whole}; ${run} | (sleep 1; cmp - ${whole})`
      const { stdout } = await promisify(execFile)('bash', ['-c', script], { env })
      expect(stdout).to.equal('')
      expect((await stat(whole)).size).to.be.above(1_000_000) // a pipe takes 64 KiB
    })

    for (const [name, variables, mark, shown] of [
      ['shows errors in red in a terminal', {}, '\u001b[31m', true],
      ['shows no colors with NO_COLOR', { NO_COLOR: '1' }, '\u001b[31m', false],
      ['prints only characters of the encoding of the locale', { LC_ALL: 'C' }, '~', true],
    ] as const)
      it(name, async () => {
        const env = { HOME: home, BERTH_URL: gateway.url, BERTH_KEY: gateway.adminKey, ...variables }
        const long = 'a'.repeat(63)
        const columns = 'name,name,name,name,id'
        await gateway.fleet.addGuest({ name: long }).catch(() => undefined)
        const terminal = new BerthTerminal(['guest', 'list', '--name', long, '--columns', columns], env)
        await terminal.ended
        const failing = new BerthTerminal(['guest', 'get', 'nothing'], env)
        expect(await failing.ended).to.equal(3)
        expect((terminal.text + failing.text).includes(mark), terminal.text + failing.text).to.equal(shown)
      })

    it('says in a terminal that a list is empty', async () => {
      const env = { HOME: home, BERTH_URL: gateway.url, BERTH_KEY: gateway.adminKey }
      const terminal = new BerthTerminal(['guest', 'list', '--name', 'no-such-guest'], env)
      expect([await terminal.ended, terminal.text.trim()]).to.deep.equal([0, 'no results'])
      expect(await berth('guest', 'list', '--name', 'no-such-guest')).to.deep.equal({ code: 0, out: '', err: '' })
    })

    it('refuses a console, and prints tables in full width, if it does not run in a terminal', async () => {
      const { code, err } = await berth('console', 'web1')
      expect([code, err.split('\n')[0]]).to.deep.equal([2, 'berth: a console needs a terminal'])
      const long = 'b'.repeat(63)
      await gateway.fleet.addGuest({ name: long })
      const columns = 'name,name,name,name'
      const { out } = await berth('guest', 'list', '--name', long, '--columns', columns)
      expect(out.split('\n')[1]).to.equal([long, long, long, long].join('  '))
    })

    it('suggests the next step if the key has expired or the gateway does not know the endpoint', async () => {
      const body = { name: 'cli-expired', scopes: ['host:read'], expires_at: '2001-01-01' }
      const { key } = (await gateway.request('POST', '/api-keys', { body })).body.data as { key: string }
      const expired = await start(['host', 'list'], { BERTH_KEY: key }).ended
      expect([expired.code, expired.err]).to.deep.equal([
        4,
        'berth: this API key has expired (key_expired)\nset BERTH_KEY to another key\n',
      ])
      const unknown = await berth('api', 'GET', '/no-such-endpoint')
      expect(unknown.code).to.equal(1)
      expect(unknown.err).to.contain('compare berth gateway version and berth --version')
    })
  })

  it('ends with the exit code 4 if the key lacks a scope', async () => {
    const key = await gateway.makeKey({ scopes: ['swap:read'] })
    const { code, err } = await start(['guest', 'list'], { BERTH_KEY: key }).ended
    expect([code, err.includes('(insufficient_scope)')]).to.deep.equal([4, true])
  })

  it('ends with the exit code 6 if the gateway cannot be reached', async () => {
    const url = `http://127.0.0.1:${await freePort()}`
    const { code, err } = await start(['guest', 'list'], { BERTH_URL: url }).ended
    expect(code).to.equal(6)
    expect(err).to.contain(`cannot reach ${url}: the connection was refused`)
  })
})
