import { expect } from 'chai'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startBerth, type ExitResult } from '../support/cli/berth.js'
import { startTestGateway, type TestGateway } from '../support/gateway/test-gateway.js'
import { freePort } from '../support/ports.js'
import { waitFor } from '../support/wait.js'

const exactly = (text: string): RegExp => new RegExp(`^${text.replace(/[()?+.]/g, '\\$&')}$`)

/** Tests how the command line reports user errors and errors of the local system. */
describe('the command line after an error', () => {
  let gateway: TestGateway
  let home: string
  let env: Record<string, string>
  before(async () => {
    gateway = await startTestGateway()
    home = await mkdtemp(join(tmpdir(), 'btest-cli-'))
    env = { HOME: home, BERTH_URL: gateway.url, BERTH_KEY: gateway.adminKey }
  })
  after(async () => {
    await gateway.close()
    await rm(home, { recursive: true, force: true })
  })

  const berth = (args: readonly string[], more: Record<string, string> = {}): Promise<ExitResult> =>
    startBerth(args, { ...env, ...more }).ended

  describe('in the connection', () => {
    const notAllowed = 'the API key contains a line break or another character that is not allowed'

    for (const key of ['berth\nkey', 'berth\u0001', 'bérth', '钥匙'])
      it(`names the source of the key ${JSON.stringify(key)}`, async () => {
        const { code, out, err } = await berth(['host', 'list'], { BERTH_KEY: key })
        expect([code, out, err]).to.deep.equal([
          2,
          '',
          `berth: BERTH_KEY: ${notAllowed}\ncorrect the key in BERTH_KEY\n`,
        ])
      })

    it('names the context whose key is damaged, and can remove this context', async () => {
      const path = join(home, 'config.yaml')
      const damaged = JSON.stringify({ current: 'lab', contexts: { lab: { url: gateway.url, key: 'a\nb' } } })
      await writeFile(path, damaged, { mode: 0o600 })
      const settings = { BERTH_CONFIG: path, BERTH_URL: '', BERTH_KEY: '' }
      for (const command of [['host', 'list'], ['logout']]) {
        const { code, err } = await berth(command, settings)
        expect([code, err]).to.deep.equal([2, `berth: context lab: ${notAllowed}\nlog in again: berth login URL\n`])
      }
      expect((await berth(['context', 'remove', 'lab'], settings)).code).to.equal(0)
    })

    it('suggests http:// if the gateway does not use TLS', async () => {
      const url = gateway.url.replace('http:', 'https:')
      const { code, err } = await berth(['host', 'list'], { BERTH_URL: url })
      expect([code, err]).to.deep.equal([6, `berth: ${url} does not use TLS: try ${gateway.url}\n`])
    })

    it('names a host name that cannot be resolved', async () => {
      const { code, err } = await berth(['host', 'list'], { BERTH_URL: 'http://panel.invalid:8080' })
      const message = 'berth: the name panel.invalid cannot be resolved\n'
      const hint = 'the URL is that of BERTH_URL: check that the gateway runs, or correct the variable\n'
      expect([code, err]).to.deep.equal([6, message + hint])
    })

    it('names the source of a URL at which nothing listens', async () => {
      const url = `http://127.0.0.1:${await freePort()}`
      const path = join(home, 'unreachable.yaml')
      await writeFile(path, JSON.stringify({ current: 'lab', contexts: { lab: { url, key: 'k' } } }), { mode: 0o600 })
      const keyFile = join(home, 'key')
      await writeFile(keyFile, 'k')
      const settings = { BERTH_CONFIG: path, BERTH_URL: '', BERTH_KEY: '' }
      const ofContext = 'the URL is that of the context lab: check that the gateway runs\n'
      for (const [args, env, hint] of [
        [['host', 'list'], { BERTH_URL: url }, 'the URL is that of BERTH_URL: '],
        [['events'], settings, ofContext],
        [['api', 'GET', '/hosts'], { ...settings, BERTH_KEY: 'k' }, ofContext],
        [['logout'], { BERTH_CONFIG: path }, ofContext],
        [['login', url, '--key-file', keyFile], settings, 'check the URL in the command, '],
        [['login', url, '--no-browser'], settings, 'check the URL in the command, '],
      ] as const) {
        const { code, err } = await berth(args, env)
        const [message, text] = [err.slice(0, err.indexOf('\n') + 1), err.slice(err.indexOf('\n') + 1)]
        expect([code, message]).to.deep.equal([6, `berth: cannot reach ${url}: the connection was refused\n`])
        expect(text.startsWith(hint), `${args.join(' ')}: ${text}`).to.equal(true)
      }
    })
  })

  describe('in a value, even if the gateway is unreachable', () => {
    for (const [args, message] of [
      ['cp a b', 'neither of the paths is in a guest'],
      ['cp /nonexistent/file web1:/root', '/nonexistent/file: there is no such file or directory'],
      ['cp /tmp web1:/root', '/tmp is a directory'],
      ['cp web1:/etc/hosts /nonexistent/file', '/nonexistent: there is no such directory'],
      ['cp web1:/ /tmp', 'the root directory cannot be copied: name a directory in it'],
      ['guest export web1 -f /nonexistent/file', '/nonexistent: there is no such directory'],
      ['guest export web1 -f /etc/hosts/file', '/etc/hosts: is not a directory'],
      ['guest export web1 -f /tmp', '/tmp: is a directory'],
      ['events --kinds ,', '--kinds: must not be empty'],
      ['mcp --only ,', '--only: must not be empty'],
      ['drain host-a --mode away', '--mode: away must be one of move, stop'],
      ['drain host-a --parallel many', '--parallel: many is not a whole number from 1 to 20'],
      ['why web1 65536', 'port: 65536 is not a whole number from 1 to 65535'],
      ['why web1 ssh', 'port: ssh is not a whole number from 1 to 65535'],
      ['guest create web1 --image debian-12 --port 80', '--port: 80 is neither JSON nor key=value,key=value'],
    ] as const)
      it(`is found before the first request: berth ${args}`, async () => {
        const { code, out, err } = await berth(args.split(' '), { BERTH_URL: 'http://127.0.0.1:1' })
        expect([code, out], err).to.deep.equal([2, ''])
        expect(/^berth: (.*)\n/.exec(err)![1]).to.match(typeof message === 'string' ? exactly(message) : message)
      })

    for (const [args, message] of [
      ['events --kinds guest,gest', /^kinds: must contain only guest, task, .* \(invalid_field\)$/],
      ['events -f --kinds gest', /^kinds: must contain only guest, task, /],
      ['mcp --only guest,gest', /^--only: gest must be one of access-policy, .*, guest, /],
    ] as const)
      it(`is found by comparison with the gateway: berth ${args}`, async () => {
        const { code, out, err } = await berth(args.split(' '))
        expect([code, out], err).to.deep.equal([2, ''])
        expect(/^berth: (.*)\n/.exec(err)![1]).to.match(message)
      })

    it('names the flag in place of the field of the API', async () => {
      const { code, err } = await berth(['guest', 'create', 'web1', '--image', 'no-such-image', '--no-wait'])
      expect([code, err.split('\n')[0]]).to.deep.equal([
        2,
        'berth: --image: this template does not exist (invalid_field)',
      ])
    })

    it('shows an example of an object', async () => {
      const { err } = await berth(['guest', 'create', 'web1', '--image', 'debian-12', '--port', '80'])
      expect(err.split('\n')[1]).to.equal('example: --port container_port=80,protocol=tcp')
    })
  })

  it('prints the result of a change if the requested columns do not exist', async () => {
    const flags = ['--image', 'debian-12', '--ram', '64m', '--vcpu', '0.1', '--disk', '1g', '--no-start']
    const { code, out, err } = await berth(['guest', 'create', 'cli-columns', ...flags, '--columns', 'pasword'])
    expect([code, err.split('\n').slice(0, 2)]).to.deep.equal([
      1,
      ['berth: --columns: pasword does not exist', 'the request was carried out, and its result is printed as JSON'],
    ])
    expect((JSON.parse(out) as { ssh_password: string }).ssh_password).to.match(/^\S{8,}$/)
    expect((await berth(['host', 'list', '--columns', 'nam'])).code).to.equal(2)
  })

  describe('in the usage', () => {
    const mixed = 'the flags of the program must follow --'
    const own = 'flags of berth itself must precede the program'

    for (const [args, message, ...hints] of [
      [
        'guest create',
        'missing: NAME, --image',
        /^example: berth guest create web1 --image /,
        'see berth guest create --help',
      ],
      ['guest create --data {"name":"x"}', 'missing: --image', /^example: /, 'see berth guest create --help'],
      ['port add', 'missing: GUEST, --guest-port', /^example: berth port add web1 /, 'see berth port add --help'],
      ['apply', 'missing: --file', 'example: berth apply -f fleet.yaml --dry-run', 'see berth apply --help'],
      ['api', 'missing: METHOD, PATH', 'see berth api --help'],
      ['context use', 'missing: NAME', 'see berth context use --help'],
      ['guest lst', 'unknown command: berth guest lst', 'did you mean berth guest list?'],
      ['run web1 ls -la', mixed, 'write: berth run web1 -- ls -la', own],
      ['run web1 grep -q x', mixed, 'write: berth run web1 -- grep -q x', own],
      ['ssh web1 ls -la', mixed, 'write: berth ssh web1 -- ls -la', own],
      ['run --qiet web1', "unknown option '--qiet'", '(Did you mean --quiet?)', 'see berth run --help'],
    ] as const)
      it(`names the problem and the next step after: berth ${args}`, async () => {
        const { code, out, err } = await berth(args.split(' '))
        const [first, ...rest] = err.trimEnd().split('\n')
        expect([code, out, first]).to.deep.equal([2, '', `berth: ${message}`])
        const last = rest.slice(-hints.length)
        hints.forEach((hint, index) => expect(last[index]).to.match(typeof hint === 'string' ? exactly(hint) : hint))
      })
  })

  it('reports a missing file once and without an error code of the system', async () => {
    const file = join(home, 'missing')
    for (const args of [
      ['apply', '-f', file],
      ['guest', 'import', file],
      ['guest', 'import', join(home, 'missing/file')],
      ['guest', 'create', 'web1', '--image', 'debian-12', '--ssh-public-key', `@${file}`],
      ['guest', 'create', '--data', `@${file}`],
      ['api', 'POST', '/containers', '--data', `@${file}`],
      ['login', gateway.url, '--key-file', file],
    ]) {
      const { code, out, err } = await berth(args)
      expect([code, out, err.replaceAll('/file:', ':')], args.join(' ')).to.deep.equal([
        2,
        '',
        `berth: ${file}: there is no such file\n`,
      ])
    }
  })

  it('reports that a directory cannot be read as a file', async () => {
    const directory = join(home, 'directory')
    await mkdir(directory)
    const imported = await berth(['guest', 'import', directory])
    expect([imported.code, imported.err]).to.deep.equal([2, `berth: ${directory}: is a directory\n`])
    const applied = await berth(['apply', '-f', directory])
    expect([applied.code, applied.err]).to.deep.equal([2, `berth: ${directory}: is a directory\n`])
  })

  describe('in its output', () => {
    /** Runs the command line in a shell. @returns its exit code and the other output */
    async function run(args: string, rest: string): Promise<[number, string]> {
      const script = `"${process.execPath}" dist/cli/main.js ${args} ${rest}; echo " $?"`
      const { stdout, stderr } = await promisify(execFile)('bash', ['-c', script], { env: { ...process.env, ...env } })
      return [Number(stdout.trim().split(' ').at(-1)), stderr]
    }

    /** Runs the command line with outputs that nobody reads. */
    async function unread(args: string[], ...outputs: ('stdout' | 'stderr')[]): Promise<number | null> {
      const { child, ended } = startBerth(args, env)
      for (const output of outputs) child[output]!.destroy()
      return (await ended).code
    }

    it('keeps the exit code of a failure if errors cannot be written', async () => {
      expect((await run('guest get nothing', '2>/dev/full'))[0]).to.equal(3)
      expect(await unread(['guest', 'get', 'nothing'], 'stderr')).to.equal(3)
      expect(await unread(['guest', 'get', 'nothing'], 'stdout', 'stderr')).to.equal(3)
      expect((await run('guest get', '2>/dev/full'))[0]).to.equal(2)
    })

    it('keeps the exit code of a result if the result cannot be written', async () => {
      const file = join(home, 'fleet.yaml')
      await writeFile(file, 'api_keys:\n  - name: cli-never-created\n    scopes: [host:read]\n')
      const args = ['apply', '-f', file, '--dry-run']
      expect((await berth(args)).code).to.equal(5)
      expect((await run(args.join(' '), '>/dev/full'))[0]).to.equal(5)
      expect(await unread(args, 'stdout')).to.equal(5)
    })

    it('fails with the reason if a successful result cannot be written, but not if nobody reads it', async () => {
      for (const args of ['host list', '--version']) {
        const failed = await run(args, '>/dev/full')
        expect(failed, args).to.deep.equal([1, 'berth: the output cannot be written: no space left on device\n'])
      }
      expect((await run('host list', '>/dev/full 2>/dev/full'))[0]).to.equal(1)
      expect(await unread(['host', 'list'], 'stdout', 'stderr')).to.equal(0)
    })

    it('ends a command that runs until it is interrupted when nobody reads its output', async () => {
      const { child, ended, err } = startBerth(['events', '-f'], env)
      child.stdout!.destroy()
      let added = 0
      await waitFor(
        async () => {
          await gateway.request('POST', '/hosts', { body: { name: `cli-event-${added++}` } })
          return child.exitCode !== null
        },
        { intervalMs: 200, what: () => `the end of the command: ${err()}` },
      )
      expect((await ended).code).to.equal(0)
    })
  })
})
