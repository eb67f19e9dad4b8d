import { expect } from 'chai'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import type { Body } from '../support/body.js'
import { startBerth, type ExitResult, type RunningCommand } from '../support/cli/berth.js'
import { startTestGateway, type TestGateway } from '../support/gateway/test-gateway.js'
import { waitFor } from '../support/wait.js'

interface FileGuest {
  name: string
  image: string
  [field: string]: unknown
}

const small = { image: 'debian-12', vcpu: 0.1, ram: '64m', disk: '1g', start: false }

const guest = (index: number): FileGuest => ({
  name: `btest-${index}`,
  ...small,
  tags: ['shop'],
  ports: [
    { guest_port: 22, description: 'login' },
    { guest_port: 80, protocol: 'tcp' },
  ],
})

describe('berth apply and berth export', () => {
  let gateway: TestGateway
  let home: string
  before(async () => {
    gateway = await startTestGateway()
    home = await mkdtemp(join(tmpdir(), 'btest-apply-'))
    await gateway.fleet.work('host-a')
  })
  after(async () => {
    await gateway.close()
    await rm(home, { recursive: true, force: true })
  })

  const start = (args: readonly string[], input = ''): RunningCommand =>
    startBerth(args, { HOME: home, BERTH_URL: gateway.url, BERTH_KEY: gateway.adminKey }, input)
  const berth = (...args: string[]): Promise<ExitResult> => start(args).ended

  /** Writes a fleet file. @returns its path */
  async function fleetFile(content: unknown): Promise<string> {
    const path = join(home, 'fleet.yaml')
    await writeFile(path, typeof content === 'string' ? content : stringify(content))
    return path
  }

  async function apply(content: unknown, ...flags: string[]): Promise<ExitResult> {
    return berth('apply', '-f', await fleetFile(content), ...flags)
  }

  /** Applies a file. Fails the test if the command does not succeed. */
  async function applied(content: unknown, ...flags: string[]): Promise<ExitResult> {
    const ended = await apply(content, '--yes', ...flags)
    expect(ended.code, ended.out + ended.err).to.equal(0)
    return ended
  }

  const rowOf = async (name: string): Promise<Body> => (await gateway.request('GET', `/containers/${name}`)).body.data
  const nameList = async (): Promise<string[]> => {
    const rows = (await gateway.request('GET', '/containers')).body.data as unknown as { name: string }[]
    return rows.map(({ name }) => name)
  }

  const fleet = () => ({
    guests: [
      ...Array.from({ length: 18 }, (_, index) => guest(index + 1)),
      {
        ...guest(19),
        note: 'first line\nsecond line',
        expires_at: '2035-01-02',
        monthly_traffic: '500g',
        delete_protected: true,
        placement: { spread: 'shop' },
        firewall: {
          enabled: true,
          default_action: 'DROP',
          rules: [{ direction: 'in', protocol: 'tcp', action: 'ACCEPT', port: '443, 80', source_ip: '192.0.2.7/24' }],
        },
      },
      { ...guest(20), host: 'host-a', ports: [{ guest_port: 8080 }] },
    ],
    customers: [
      { name: 'btest-anna', guests: ['btest-1', 'btest-2'], permissions: ['container:read'], allowed_images: [] },
    ],
    api_keys: [
      { name: 'btest-billing', scopes: ['container:read'], guests: ['btest-3'], ip_whitelist: ['192.0.2.0/24'] },
    ],
    webhooks: [{ name: 'btest-hook', url: 'http://127.0.0.1:9', events: ['guest.*'] }],
    deletion_settings: { undo_delete_hours: 0 },
  })

  it('needs a confirmation, and ends a dry run with the exit code 5 if something would change', async () => {
    const dry = await apply(fleet(), '--dry-run')
    expect([dry.code, dry.err]).to.deep.equal([5, 'berth: the fleet differs from the file: 23 to create\n'])
    expect(dry.out).to.match(/^\+ guest btest-1\n {4}image: debian-12\n/)
    const rows = JSON.parse((await apply(fleet(), '--dry-run', '-o', 'json')).out) as { name: string }[]
    expect(rows.map(({ name }) => name)).to.include.members(['btest-20', 'btest-anna'])
    const unconfirmed = await apply(fleet())
    expect(unconfirmed.code).to.equal(2)
    expect(unconfirmed.err).to.contain('confirm with --yes')
    expect(await nameList()).to.deep.equal([])
  })

  it('creates everything that a file describes, and prints each new secret once', async () => {
    const { out, err } = await applied(fleet())
    expect(err).to.contain('guest btest-20: created').and.to.contain('23 of 23 changes done.')
    expect(out.match(/^guest btest-\d+: password \S+$/gm)).to.have.length(20)
    expect(out).to.match(/^api-key btest-billing: key \S+$/m)
    expect(out).to.match(/^webhook btest-hook: secret \S+$/m)
    expect(out).to.match(/^customer btest-anna: password \S+$/m)
    const { tags, note, delete_protected: isProtected, expires_at: expiry } = await rowOf('btest-19')
    expect([tags, note, isProtected]).to.deep.equal([['berth.apply:main', 'shop'], 'first line\nsecond line', true])
    expect(expiry).to.equal('2035-01-02 23:59:59')
    expect((await rowOf('btest-20')).port_mappings).to.have.length(1)
  })

  it('changes nothing in a second run', async () => {
    const { out, err } = await applied(fleet())
    expect([out, err]).to.deep.equal(['', 'Nothing to change.\n'])
    expect((await apply(fleet(), '--dry-run')).code).to.equal(0)
  })

  it('exports a file without secrets, and applying this file changes nothing', async () => {
    const { code, out, err } = await berth('export')
    expect(code, err).to.equal(0)
    expect(out).to.contain('name: btest-20').and.not.to.contain('berth.apply').and.not.to.contain('password')
    const again = await applied(out)
    expect([again.out, again.err]).to.deep.equal(['', 'Nothing to change.\n'])
  })

  it('shows and reverts changes that were made without the file', async () => {
    await gateway.request('PUT', '/containers/btest-1/resource-limit', { body: { ram_mb: 128 } })
    await gateway.request('PATCH', '/containers/btest-1', { body: { tags: ['berth.apply:main', 'other'] } })
    await gateway.request('DELETE', '/containers/btest-2/port-mappings/0')
    await gateway.request('POST', '/containers/btest-2/port-mappings', { body: { container_port: 99 } })
    await gateway.request('PUT', '/containers/btest-19/firewall', { body: { enabled: false } })
    const dry = await apply(fleet(), '--dry-run')
    expect(dry.out).to.contain('~ guest btest-1\n    ram: 128m → 64m\n    tags: ')
    expect(dry.out).to.match(
      /~ guest btest-2\n {4}ports:\n {6}- tcp \d+ → 99\n {6}\+ tcp any free port → 22 \(login\)\n/,
    )
    expect(dry.out).to.contain('      - off, default DROP\n      + on, default DROP\n')
    await applied(fleet())
    expect((await rowOf('btest-1')).ram_mb).to.equal(64)
    expect((await apply(fleet(), '--dry-run')).code).to.equal(0)
  })

  it('reads the standard input, and continues after a failed change', async () => {
    const content = {
      guests: [
        { ...guest(1), snapshot_limit: 5000 },
        { ...guest(2), snapshot_limit: 7 },
      ],
    }
    const { code, err } = await start(['apply', '-f', '-', '--yes'], stringify(content)).ended
    expect(code, err).to.equal(1)
    expect(err)
      .to.match(/^guest btest-1: failed: snapshot_limit: .*$/m)
      .and.to.contain('1 of 2 changes failed')
    expect((await rowOf('btest-2')).snapshot_limit).to.equal(7)
  })

  it('refuses an invalid file before it changes anything, and shows the positions of the errors', async () => {
    const text =
      'guests:\n  - name: btest-1\n    image: ubuntu\n    disk: 1g\n  - name: new\n    nmae: x\n    ram: [1]\n'
    const unknown = await apply(text, '--yes')
    expect(unknown.code).to.equal(2)
    expect(unknown.err).to.match(/fleet.yaml:6:5: guests\.1\.nmae: is not a field/)
    expect(unknown.err).to.match(/fleet.yaml:7:5: guests\.1\.ram: must be a size/)
    const fixed = await apply(text.replace(/ {2}- name: new[^]*/, ''), '--yes')
    expect([fixed.code, fixed.err.split('\n')[0]]).to.deep.equal([
      2,
      `berth: ${join(home, 'fleet.yaml')}:3:5: guests.0.image: is debian-12 and cannot be changed to ubuntu`,
    ])
  })

  it('completes the changes for 200 guests after a run was killed, and then changes nothing', async () => {
    const names = Array.from({ length: 200 }, (_, index) => `btest-killed-${index}`)
    const content = { set: 'killed', guests: names.map((name) => ({ ...guest(1), name })) }
    const held = new AbortController()
    const released = once(held.signal, 'abort')
    const agent = gateway.fleet.agentOf('host-a')
    let steps = 0
    agent.observer = async () => {
      if (++steps > 100) await released
    }
    const first = start(['apply', '-f', await fleetFile(content), '--yes'])
    await waitFor(() => steps > 100, { what: 'the first guests' })
    first.child.kill('SIGKILL')
    await first.ended
    const begun = (await nameList()).filter((name) => names.includes(name))
    expect(begun).to.have.length.above(0).and.below(names.length)
    agent.observer = undefined
    held.abort()
    const { err } = await applied(content)
    const created = (await nameList()).filter((name) => names.includes(name))
    expect(created, err).to.have.members(names)
    const { out, err: second } = await applied(content)
    expect([out, second]).to.deep.equal(['', 'Nothing to change.\n'])
    expect((await rowOf(names[199]!)).port_mappings).to.have.length(2)
  })

  it('deletes only guests that berth apply manages, and only with --prune', async () => {
    await gateway.fleet.addGuest({ name: 'btest-foreign' })
    const kept = { ...fleet(), guests: fleet().guests.filter(({ name }) => !/-(3|19)$/.test(name)), api_keys: [] }
    const noted = await applied(kept)
    expect(noted.out).to.contain('note: guest btest-3 is no longer in the file; --prune deletes it')
    const failing = { ...kept, guests: [...kept.guests, { name: 'btest-no-image', image: 'no-such-image' }] }
    expect((await apply(failing, '--yes', '--prune')).err).to.contain(
      'guest btest-3: skipped, because another change failed',
    )
    const { out, err } = await applied(kept, '--prune')
    expect(out).to.contain('- guest btest-3\n').and.to.contain('btest-19 is protected from deletion and stays')
    expect(err).to.contain('guest btest-3: deleted').and.to.contain('1 of 1 changes done.')
    const names = await nameList()
    expect(names).to.include.members(['btest-foreign', 'btest-killed-0', 'btest-19', 'btest-1'])
    expect(names).not.to.include('btest-3')
  })
})
