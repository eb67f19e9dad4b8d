import type { ServiceError } from '@grpc/grpc-js'
import { expect } from 'chai'
import fc from 'fast-check'
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Firewall, FirewallRule } from '../../proto/gen/berth/agent/v1/network.js'
import { checkFirewall } from '../../shared/firewall-rules.js'
import { networkLimits } from '../../shared/network-limits.js'
import { AgentProcess } from '../support/host/agent-process.js'
import { SettingsHost } from '../support/host/settings-host.js'
import { waitFor } from '../support/wait.js'

/*
 * Updates the firewall of a running guest, mostly with invalid rules, while datagrams test its ports. Invalid updates
 * are rejected with the name of the field and change nothing. Each packet meets either the old or the new rules.
 */

const tag = 'fwu'
const updates = 3000
/** Every fifth update is valid. */
const rightEach = 5
const enoughMs = 12_000
/** Minimum number of updates, even if they take longer than `enoughMs`. */
const fewest = 600
/** Number of updates between two pauses of `holdMs`. The rules do not change during a pause. */
const holdEach = 200
const holdMs = 300
const [always, never, sometimes] = [4000, 4001, [4002, 4003, 4004]] as const
const packets = fileURLToPath(new URL('../support/network/packets.py', import.meta.url))

const rule = (fields: Partial<FirewallRule>): FirewallRule =>
  FirewallRule.create({ direction: 'in', protocol: 'udp', action: 'ACCEPT', network: 'all', ...fields })

interface ValidCase {
  readonly firewall: Firewall
  readonly open: ReadonlySet<number>
}

/** Generates rules with all kinds of fields. They do not affect the tested ports. */
const decoys = fc
  .record({
    direction: fc.constantFrom('in', 'out'),
    protocol: fc.constantFrom('tcp', 'icmp'),
    action: fc.constantFrom('ACCEPT', 'DROP'),
    source: fc.constantFrom(
      ...([
        ['all', ''],
        ['ipv4', ''],
        ['ipv6', ''],
        ['ipv4', '198.18.7.9/24'],
        ['all', '2001:DB8:0::1'],
      ] as const),
      ...([
        ['ipv4', '198.18.7.1-198.18.7.99'],
        ['ipv6', '2001:db8::1-2001:db8::ff'],
        ['all', '0.0.0.0/0'],
      ] as const),
    ),
    port: fc.constantFrom('', '22', '443, 80,80', '5000-5999', ' 1-65535 ', '9000-9009,9005-9020,22'),
    description: fc.string({ unit: fc.constantFrom('a', ' ', 'é', '"', '$', ';', '{'), maxLength: 20 }),
  })
  .map(({ source: [network, sourceIp], port, ...fields }) =>
    rule({ ...fields, network, sourceIp, port: fields.protocol === 'tcp' ? port : '' }),
  )

const valid: fc.Arbitrary<ValidCase> = fc
  .record({
    decoys: fc.array(decoys, { maxLength: 30 }),
    open: fc.subarray([...sometimes]),
    at: fc.nat(),
    enabledDefault: fc.constantFrom('DROP'),
  })
  .map(({ decoys: others, open, at, enabledDefault }) => {
    const asked = [always, ...open].map((port) => rule({ port: String(port) }))
    const rules = others.toSpliced(at % (others.length + 1), 0, ...asked)
    return {
      firewall: { enabled: true, defaultAction: enabledDefault, rules },
      open: new Set([always, ...open]),
    }
  })

/** Invalid rules, each with the name of its invalid field. */
const wrongRules: readonly (readonly [field: keyof FirewallRule, wrong: Partial<FirewallRule>])[] = [
  ...['0', '65536', '80-79', 'http', '80;drop', '1,,2', '-1', '80-', '1e3', '0x50', '80 90', '٨٠', '80\n'].map(
    (port) => ['port', { port }] as const,
  ),
  ['port', { port: Array.from({ length: 51 }, (_, n) => n + 1).join() }],
  ['port', { protocol: 'icmp', port: '80' }],
  ['port', { protocol: 'all', port: '80' }],
  ...[
    '10.0.0',
    '10.0.0.256',
    '10.0.0.0/33',
    '10.0.0.9-10.0.0.1',
    '::1%eth0',
    '10.0.0.1-::2',
    '1.2.3.4 ; drop',
    '@set',
    '!10.0.0.1',
    '10.0.0.1,10.0.0.2',
    '0.0.0.0/0/0',
    '{ 10.0.0.1 }',
    '2001:db8::/129',
    'localhost',
  ].map((sourceIp) => ['sourceIp', { sourceIp }] as const),
  ['sourceIp', { network: 'ipv4', sourceIp: '2001:db8::1' }],
  ['sourceIp', { network: 'ipv6', sourceIp: '10.0.0.1' }],
  ...['', 'accept', 'REJECT', 'DROP; flush ruleset'].map((action) => ['action', { action }] as const),
  ...['', 'both', 'IN'].map((direction) => ['direction', { direction }] as const),
  ...['', 'sctp', 'TCP', '6'].map((protocol) => ['protocol', { protocol }] as const),
  ...['', 'inet', 'ipv5'].map((network) => ['network', { network }] as const),
  ...['a\nb', 'x'.repeat(201), '\u0000', '\u2028'].map((description) => ['description', { description }] as const),
  ...['a b', 'x'.repeat(65), '../x', 'é'].map((id) => ['id', { id }] as const),
]

interface InvalidCase {
  readonly firewall: Firewall
  readonly field: string
}

const wireName = (field: string): string => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const invalid: fc.Arbitrary<InvalidCase> = fc.oneof(
  {
    weight: 20,
    arbitrary: fc.tuple(valid, fc.constantFrom(...wrongRules), fc.nat()).map(([{ firewall }, [field, wrong], at]) => {
      const index = at % (firewall.rules.length + 1)
      const rules = firewall.rules.toSpliced(index, 0, rule(wrong))
      return { firewall: { ...firewall, rules }, field: `rules.${index}.${wireName(field)}` }
    }),
  },
  valid.map(({ firewall }) => ({
    firewall: { ...firewall, rules: Array<FirewallRule>(networkLimits.firewallRules + 1).fill(rule({})) },
    field: 'rules',
  })),
  fc.tuple(valid, fc.constantFrom('', 'drop', 'REJECT')).map(([{ firewall }, defaultAction]) => ({
    firewall: { ...firewall, defaultAction },
    field: 'default_action',
  })),
  valid.map(({ firewall }) => ({
    firewall: { ...firewall, rules: [rule({ id: 'same' }), rule({ id: 'same' }), ...firewall.rules] },
    field: 'rules.0.id',
  })),
)

/** The open ports of a firewall, and the time during which it was in force. */
interface InForce {
  readonly fromMs: number
  untilMs: number
  readonly open: ReadonlySet<number>
}

describe('firewall updates', function () {
  const children: ChildProcess[] = []
  let host: SettingsHost
  let guest: string

  before(async () => {
    host = await SettingsHost.open(await AgentProcess.create(tag, { lxc: { stop_timeout_seconds: 1 } }))
    guest = await host.create(1, 'target')
    await waitFor(() => host.guest(guest))
    const inside = ['nsenter', `--net=/proc/${pidOfGuest()}/ns/net`]
    await python(inside, 'serve', 'target', `udp:${always}-${sometimes.at(-1)}`)
  })

  after(async () => {
    for (const child of children) child.kill('SIGKILL')
    await host?.destroy()
  })

  it(`change all rules of a firewall at the same moment, or none if one of them is invalid (${updates} updates during traffic)`, async () => {
    const history = [await accept(first())]
    const answers: string[] = []
    const ports = [always, never, ...sometimes].map(String)
    const probes = await python([], 'stream', host.guest(guest).ipv4, '0.002', ...ports)
    probes.on('line', (line) => answers.push(line))
    const seed = Date.now() & 0x7fff_ffff
    const ended = performance.now() + enoughMs
    let [done, refused] = [0, 0]
    const rights = fc.sample(valid, { seed, numRuns: 500 })
    const wrongs = fc.sample(invalid, { seed, numRuns: 2000 })
    for (; done < fewest || (done < updates && performance.now() < ended); done++) {
      const at = `update ${done}, seed ${seed}`
      if (done % rightEach === 0) history.push(await accept(rights[done % rights.length]!, history.at(-1)))
      else await refuse(wrongs[refused++ % wrongs.length]!, at)
      if (done % 100 === 0) await readBack(history.at(-1)!, at)
      if (done % holdEach === 0) await delay(holdMs)
    }
    await readBack(history.at(-1)!, 'the last')
    const count = answers.length
    await waitFor(() => answers.length > count + 500, { what: 'the last answers' })
    judge(answers, history)
  })

  it('run one after another, and the last accepted update stays in force', async () => {
    const rights = fc.sample(valid, 20)
    const wrongs = fc.sample(invalid, 60)
    const outcomes = await Promise.all(
      [...rights, ...wrongs].map(({ firewall }) =>
        host.setFirewall(guest, firewall).then(
          (answer) => answer,
          (error: ServiceError) => String(error.metadata.get('berth-code')[0]),
        ),
      ),
    )
    const accepted = outcomes.filter((outcome) => typeof outcome !== 'string')
    expect(accepted).to.have.length(rights.length)
    expect(new Set(outcomes.filter((outcome) => typeof outcome === 'string'))).to.deep.equal(new Set(['invalid_field']))
    const newest = accepted.toSorted((a, b) => b.revision - a.revision)[0]!
    expect(await host.firewall(guest)).to.deep.equal(newest.firewall)
    const chain = chainOf()
    await host.setFirewall(guest, newest.firewall)
    expect(chainOf()).to.equal(chain)
  })

  /** Returns the first firewall, which allows only the port `always`. */
  function first(): ValidCase {
    const rules = [rule({ port: String(always) })]
    return { firewall: { enabled: true, defaultAction: 'DROP', rules }, open: new Set([always]) }
  }

  let stored: Firewall | undefined

  async function accept({ firewall, open }: ValidCase, before?: InForce): Promise<InForce> {
    const fromMs = nowMs()
    const answer = await host.setFirewall(guest, firewall)
    if (before) before.untilMs = nowMs()
    stored = answer.firewall!
    const intent = checkFirewall(firewall)
    const withoutIds = { ...stored, rules: stored.rules.map((one) => ({ ...one, id: '' })) }
    expect(withoutIds).to.deep.equal(intent)
    return { fromMs, untilMs: Infinity, open }
  }

  async function refuse({ firewall, field }: InvalidCase, at: string): Promise<void> {
    const error = await host.setFirewall(guest, firewall).then(
      () => undefined,
      (refusal: ServiceError) => refusal,
    )
    const told = [error?.metadata.get('berth-code')[0], error?.metadata.get('berth-field')[0]]
    expect(told, `${at}: ${JSON.stringify(firewall)}`).to.deep.equal(['invalid_field', field])
  }

  /** Compares the firewall that the agent reports, and the one in the kernel, with the last accepted one. */
  async function readBack({ open }: InForce, at: string): Promise<void> {
    expect(await host.firewall(guest), at).to.deep.equal(stored)
    const ports = [...chainOf().matchAll(/\b(400\d)\b/g)].map(([, port]) => Number(port))
    expect(new Set(ports), at).to.deep.equal(open)
  }

  function judge(answers: readonly string[], history: readonly InForce[]): void {
    const begin = history[0]!.fromMs + 100
    const probes = answers.map((line) => line.split(' ').map(Number) as [number, number, number])
    const judged = probes.filter(([, seconds]) => seconds * 1000 > begin)
    expect(judged.length).to.be.greaterThan(1000)
    const inForceAt = (sentMs: number): InForce[] =>
      history.filter(({ fromMs, untilMs }) => fromMs < sentMs + 100 && untilMs > sentMs - 1)
    const byOne = judged.filter(([, seconds]) => inForceAt(seconds * 1000).length === 1)
    expect(byOne.length).to.be.greaterThan(200)
    const wrong = judged.filter(
      ([port, seconds, answered]) => !inForceAt(seconds * 1000).some(({ open }) => open.has(port) === (answered === 1)),
    )
    expect(wrong).to.deep.equal([])
    expect(judged.filter(([port, , answered]) => port === always && !answered)).to.deep.equal([])
    expect(judged.filter(([port, , answered]) => port === never && answered)).to.deep.equal([])
  }

  const nowMs = (): number => performance.timeOrigin + performance.now()

  function chainOf(): string {
    return execFileSync('nft', ['list', 'chain', 'inet', `btest_${tag}`, `in_x${tag}1`]).toString()
  }

  function pidOfGuest(): string {
    const args = ['-P', join(host.agent.directory, 'state/lxc'), '-n', `x${tag}-1`, '-p', '-H']
    return execFileSync('lxc-info', args).toString().trim()
  }

  /** Starts a tool of packets.py, which runs until the test ends. @returns the lines of its output */
  async function python(at: readonly string[], ...args: string[]) {
    const [name = '', ...rest] = [...at, '/usr/bin/python3', packets, ...args]
    const child = spawn(name, rest, { stdio: ['ignore', 'pipe', 'inherit'] })
    children.push(child)
    const lines = createInterface({ input: child.stdout })
    await once(lines, 'line')
    return lines
  }
})
