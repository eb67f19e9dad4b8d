import { expect } from 'chai'
import type { GuestNetwork, NatMapping } from '../../agent/network/contract.js'
import type { Firewall, FirewallRule } from '../../shared/firewall-rules.js'
import {
  families,
  firewall,
  firstPort,
  isAllowed,
  lastPort,
  rulesByPort,
  sources,
  type Probe,
} from '../support/network/firewall-model.js'
import {
  clientAddress,
  clientAddress6,
  guestPrefix6,
  hostAddress,
  NetworkLab,
  type AgentNetwork,
} from '../support/network/network-lab.js'
import { waitFor } from '../support/wait.js'
import { deadlineOf } from '../support/promised-time.js'

/* Sends real packets through the firewalls of guests, and compares the answers with a model of the rules. */

const publicAddress = '198.51.100.77'
const ssh: NatMapping = {
  protocol: 'tcp',
  hostIp: '',
  hostPort: 20001,
  hostPortEnd: 20001,
  containerPort: 4000,
}

const icmpv6Program = `
import socket, sys
sock = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 255)
for kind in sys.argv[2:]:
    sock.sendto(bytes([int(kind), 0, 0, 0]) + bytes(20) + b"<<type %s>>" % kind.encode(), (sys.argv[1], 0))
`

describe('the firewall of a guest', function () {
  const lab = new NetworkLab('btestfw')
  const a = lab.guest(11, [ssh], { publicIpv4s: [publicAddress], ipv6Addresses: [`${guestPrefix6}11`] })
  const b = lab.guest(12, [{ ...ssh, hostPort: 20002, hostPortEnd: 20002 }], {
    ipv6Addresses: [`${guestPrefix6}12`],
  })
  const [inA, inB] = [a, b].map((guest) => lab.namespaceOf(guest)) as [string, string]
  let agent: AgentNetwork

  const targets = {
    in: { ipv4: publicAddress, ipv6: `${guestPrefix6}11` },
    out: { ipv4: clientAddress, ipv6: clientAddress6 },
  }
  const set = (rules?: Firewall, guest: GuestNetwork = a): Promise<unknown> =>
    agent.call('attach', rules ? { ...guest, firewall: rules } : guest)

  function ask(direction: 'in' | 'out', probes: readonly Probe[]): boolean[] {
    const asked = probes.map(({ protocol, family, port }) =>
      [protocol, targets[direction][family], ...(protocol === 'icmp' ? [] : [port])].join(','),
    )
    return lab.probe(direction === 'in' ? lab.client : inA, asked)
  }

  /** Repeats the requests until all `wanted` ones are answered, because a busy machine may lose some of them. */
  function askUntil(direction: 'in' | 'out', probes: readonly Probe[], wanted: readonly Probe[]): Probe[] {
    const answered = new Set<Probe>()
    for (let round = 0; round < 20; round++) {
      const answers = ask(direction, probes)
      probes.forEach((probe, at) => answers[at] && answered.add(probe))
      if (wanted.every((probe) => answered.has(probe))) break
    }
    return probes.filter((probe) => answered.has(probe))
  }

  function compare(rules: Firewall, direction: 'in' | 'out', probes: readonly Probe[]): void {
    const describe = (probe: Probe): string => `${probe.protocol} ${probe.family} ${probe.port}`
    const wanted = probes.filter((probe) => isAllowed(rules, direction, probe))
    const want = wanted.map(describe)
    const got = askUntil(direction, probes, wanted).map(describe)
    expect(got).to.deep.equal(want)
    expect(want.length).to.be.within(1, probes.length - 1)
  }

  before(async () => {
    lab.build()
    agent = lab.agent()
    await agent.ensure([a, b])
    for (const guest of [a, b]) {
      lab.plug(guest)
      const ports = [`tcp:${firstPort}-${lastPort}`, `udp:${firstPort}-${lastPort}`]
      await lab.serve(lab.namespaceOf(guest), guest.device, ...ports)
    }
    await lab.serve(lab.client, 'client', `tcp:${firstPort}-${lastPort}`, `udp:${firstPort}-${lastPort}`)
    for (const way of ['in', 'out'] as const)
      for (const family of families)
        await waitFor(() => ask(way, [{ protocol: 'tcp', family, port: firstPort }])[0], {
          what: `the way ${way} in ${family}`,
        })
  })

  after(() => lab.remove())
  afterEach(() => set())

  for (const direction of ['in', 'out'] as const)
    for (const action of ['ACCEPT', 'DROP'] as const)
      for (const protocol of ['tcp', 'udp'] as const)
        it(`applies ${action} rules for protocol ${protocol} in direction “${direction}” with every form of port and source`, async () => {
          const rules = firewall(rulesByPort({ direction, action, protocol }), action === 'ACCEPT' ? 'DROP' : 'ACCEPT')
          await set(rules)
          const ports = rules.rules.flatMap((_, i) => [0, 1, 2, 3].map((n) => firstPort + 10 * i + n))
          const probes = families.flatMap((family) => ports.map((port) => ({ protocol, family, port })))
          compare(rules, direction, probes)
        })

  for (const direction of ['in', 'out'] as const)
    for (const action of ['ACCEPT', 'DROP'] as const)
      for (const protocol of ['icmp', 'all'] as const)
        it(`applies ${action} rules for protocol ${protocol} in direction “${direction}” with every form of source`, async () => {
          const probes = families.flatMap((family) =>
            (['icmp', 'tcp', 'udp'] as const).map((kind) => ({ protocol: kind, family, port: firstPort })),
          )
          for (const network of families)
            for (const sourceIp of [sources[network][0], sources[network][2]]) {
              const rule = { direction, action, protocol, network, sourceIp }
              const rules = firewall([rule], action === 'ACCEPT' ? 'DROP' : 'ACCEPT')
              await set(rules)
              compare(rules, direction, probes)
            }
        })

  it('applies the first rule that matches', async () => {
    const rules = firewall([
      { protocol: 'tcp', port: '4000' },
      { protocol: 'tcp', port: '4000-4001', action: 'DROP' },
      { protocol: 'tcp' },
    ])
    await set(rules)
    const ports = [4000, 4001, 4002]
    compare(
      rules,
      'in',
      ports.map((port) => ({ protocol: 'tcp', family: 'ipv4', port })),
    )
  })

  it('blocks requests to the guest that match no rule, but no answers to the guest’s own requests', async () => {
    await set(firewall([{ direction: 'out' }]))
    const probes = families.map((family) => ({ protocol: 'udp', family, port: 4000 }) as const)
    expect(askUntil('out', probes, probes)).to.deep.equal(probes)
    expect(ask('in', probes)).to.deep.equal([false, false])
  })

  it('filters clients, the host and other guests at mapped ports by their real source addresses', async () => {
    const reach = (): string[] => [
      lab.ask(lab.client, `tcp:${hostAddress}:20001`, { timeoutSeconds: 0.5 }),
      lab.ask(lab.host, `tcp:${hostAddress}:20001`, { timeoutSeconds: 0.5 }),
      lab.ask(inB, `tcp:${hostAddress}:20001`, { timeoutSeconds: 0.5 }),
    ]
    expect(reach()).to.deep.equal([`bt11 ${clientAddress}`, `bt11 ${hostAddress}`, `bt11 ${b.ipv4}`])
    await set(firewall([]))
    expect(reach()).to.deep.equal(['', '', ''])
    await set(firewall([{ protocol: 'tcp', port: '4000', sourceIp: b.ipv4 }]))
    expect(reach()).to.deep.equal(['', '', `bt11 ${b.ipv4}`])
    await set(firewall([{ protocol: 'tcp', port: '4000', sourceIp: clientAddress }]))
    expect(reach()).to.deep.equal([`bt11 ${clientAddress}`, '', ''])
  })

  it('does not affect other guests', async () => {
    await set(firewall([]))
    expect(lab.answer(lab.client, `tcp:${hostAddress}:20002`)).to.equal(`bt12 ${clientAddress}`)
    expect(lab.answer(inB, `tcp:${clientAddress}:4000`)).to.equal(`client ${hostAddress}`)
    expect(lab.answer(lab.client, `tcp:${guestPrefix6}12:4000`)).to.equal(`bt12 ${clientAddress6}`)
  })

  it('does not open ports that are not mapped', async () => {
    lab.in(lab.client, 'ip', 'route', 'replace', '10.77.0.0/24', 'via', hostAddress)
    await set(firewall([{}], 'ACCEPT'), b)
    expect(lab.ask(lab.client, `tcp:${b.ipv4}:4000`, { timeoutSeconds: 0.5 })).to.equal('')
    expect(lab.answer(lab.client, `tcp:${hostAddress}:20002`)).to.equal(`bt12 ${clientAddress}`)
    await set(undefined, b)
  })

  const icmpv6 = (from: string, to: string, types: readonly number[]): void =>
    void lab.in(from, 'python3', '-c', icmpv6Program, to, ...types.map(String))

  it('blocks packets that match no rule, even if connection tracking ignores them', async () => {
    await set(firewall([]))
    const untracked = [128, 130, 131, 132, 133, 134, 135, 136, 137, 143, 200]
    const seen = [await lab.sniff(inA, 'eth0'), await lab.sniff(lab.client, 'eth0')]
    const sendAll = (types: readonly number[]): void => {
      icmpv6(lab.client, `${guestPrefix6}11`, types)
      icmpv6(inA, clientAddress6, types)
    }
    sendAll(untracked)
    await set(firewall([], 'ACCEPT'))
    sendAll([128])
    await waitFor(() => seen.every((markers) => markers.has('type 128')), { what: 'permitted packets' })
    for (const markers of seen) expect([...markers].sort()).to.deep.equal(['type 128'])
  })

  it('has no effect while it is disabled', async () => {
    await set({ ...firewall([]), enabled: false })
    expect(lab.answer(lab.client, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${clientAddress}`)
  })

  describe('for established connections', () => {
    const dropIn = { protocol: 'tcp', action: 'DROP', port: '5001-5009' }
    const dropOut = { protocol: 'tcp', action: 'DROP', direction: 'out' }
    for (const [name, [server, client], target, port, rule] of [
      ['an incoming connection', [inA, lab.client], publicAddress, '5001', dropIn],
      ['an incoming IPv6 connection', [inA, lab.client], `${guestPrefix6}11`, '5002', dropIn],
      ['an incoming connection from another guest', [inA, inB], publicAddress, '5003', dropIn],
      ['an outgoing connection', [lab.client, inA], clientAddress, '5004', dropOut],
      ['an outgoing IPv6 connection', [lab.client, inA], clientAddress6, '5005', dropOut],
    ] as [string, [string, string], string, string, Partial<FirewallRule>][])
      it(`blocks ${name} within a second after a DROP rule is added, until the rule is removed`, async () => {
        await lab.follow(server, 'echo', port)
        const answers = await lab.follow(client, 'talk', target, port)
        await waitFor(() => answers.length > 10)
        await set(firewall([rule], 'ACCEPT'))
        const cutAtMs = Date.now()
        const lastMs = (): number => Number(answers.at(-1)) * 1000
        await waitFor(() => Date.now() - lastMs() > 500, { what: 'silence' })
        expect(lastMs() - cutAtMs, 'ms, 1000 are promised').to.be.lessThan(deadlineOf(1000))
        if (name === 'in') expect(lab.answer(inA, `tcp:${clientAddress}:4001`)).to.not.equal('')
        const count = answers.length
        await set()
        await waitFor(() => answers.length > count + 10, { what: 'continues' })
      })
  })

  describe('when the agent compares it with the kernel', () => {
    const closed = { ...a, firewall: firewall([{ protocol: 'tcp', port: '4000,4002-4005' }]) }
    const bGuest = b

    it('is not changed if its rules are correct, even if the agent has just started', async () => {
      await agent.call('attach', closed)
      expect(await agent.ensure([closed, bGuest])).to.deep.equal([])
      const fresh = lab.agent()
      expect(await fresh.ensure([closed, bGuest])).to.deep.equal([])
      await fresh.end()
    })

    for (const [name, by, repairs] of [
      ['the insertion of a rule', 'insert rule inet berth in_bt11 return', ['1 firewalls set']],
      ['the flush of a chain', 'flush chain inet berth in_bt11', ['1 firewalls set']],
      [
        'the deletion of an element of a verdict map',
        `delete element inet berth firewall_in { ${a.ipv4} }`,
        ['1 nft elements added'],
      ],
      [
        'the addition of a chain for a guest that does not exist',
        'add chain inet berth in_bt99',
        ['1 firewalls removed'],
      ],
    ] as [string, string, string[]][])
      it(`is restored if another program changed it: ${name}`, async () => {
        await agent.call('attach', closed)
        lab.in(lab.host, 'nft', by)
        const fresh = lab.agent()
        expect(await fresh.ensure([closed, bGuest])).to.deep.equal(repairs)
        expect(await fresh.ensure([closed, bGuest])).to.deep.equal([])
        await fresh.end()
        expect(lab.ask(lab.client, `tcp:${publicAddress}:4001`, { timeoutSeconds: 0.3 })).to.equal('')
        expect(lab.answer(lab.client, `tcp:${publicAddress}:4003`)).to.equal(`bt11 ${clientAddress}`)
        await agent.end()
        agent = lab.agent()
        await agent.ensure([closed, bGuest])
      })

    it('keeps the former rules if a change fails', async () => {
      await agent.call('attach', closed)
      const bad = { ...closed, firewall: firewall([{ protocol: 'tcp', port: '80-79' }]) }
      const failed = await agent.call('attach', bad).catch((error: Error) => error.message)
      expect(failed).to.be.a('string')
      expect(lab.ask(lab.client, `tcp:${publicAddress}:4001`, { timeoutSeconds: 0.3 })).to.equal('')
      expect(lab.answer(lab.client, `tcp:${publicAddress}:4003`)).to.equal(`bt11 ${clientAddress}`)
      expect(await agent.ensure([closed, bGuest])).to.deep.equal([])
    })
  })

  it('stays closed if another program deletes its rules, and is repaired within 5 s', async () => {
    const rules = firewall([{ protocol: 'udp', port: '4000' }, { direction: 'out' }])
    const closed = { ...a, firewall: rules }
    await agent.end()
    agent = lab.agent({ watches: true })
    await agent.ensure([closed, b])
    await lab.serve(lab.host, 'host', 'udp:4900')
    lab.in(lab.client, 'ip', 'route', 'replace', '10.77.0.0/24', 'via', hostAddress)
    const streams = [
      await lab.follow(lab.client, 'stream', `${guestPrefix6}11`, '0.001', '4000', '4001'),
      await lab.follow(lab.client, 'stream', a.ipv4, '0.001', '4001'),
      await lab.follow(inB, 'stream', a.ipv4, '0.001', '4001'),
      await lab.follow(inB, 'stream', '10.77.0.1', '0.001', '4900'),
    ]
    const isOpen = (): boolean => lab.ask(lab.client, `udp:${guestPrefix6}11:4000`, { timeoutSeconds: 0.2 }) !== ''
    for (const damage of [
      'flush ruleset',
      'delete table inet berth',
      'delete table bridge berth',
      'flush ruleset; add table ip other',
    ]) {
      lab.in(lab.host, 'nft', damage)
      await waitFor(isOpen, { timeoutMs: deadlineOf(5000), what: `repair after ${damage}` })
    }
    const counts = streams.map((lines) => lines.length)
    await waitFor(() => streams.every((lines, i) => lines.length > counts[i]! + 700), { what: 'all answers' })
    const answered = streams.map((lines) =>
      lines.filter((line) => line.endsWith(' 1')).map((line) => line.split(' ')[0]),
    )
    await agent.end() // automatic repairs would disturb the following tests
    agent = lab.agent()
    await agent.ensure([a, b])
    expect(new Set(answered[0])).to.deep.equal(new Set(['4000']))
    expect(answered.slice(1)).to.deep.equal([[], [], []])
  })

  it('applies either the old or the new rules to each packet during 300 replacements', async () => {
    const [always, never, random] = [4000, 4001, [4002, 4003, 4004, 4005]] as const
    const answers = await lab.follow(
      lab.client,
      'stream',
      publicAddress,
      '0.002',
      ...[always, never, ...random].map(String),
    )
    const history: { fromMs: number; untilMs: number; open: Set<number> }[] = []
    const nowMs = (): number => performance.timeOrigin + performance.now()
    let closedMs = Infinity // time when the first rules were in force
    for (let round = 0; round < 300; round++) {
      const open = random.filter(() => Math.random() < 0.5)
      const decoys = Array.from({ length: 20 }, (_, i) => ({ protocol: 'tcp', port: `${6000 + i}` }) as const)
      const rules = [
        ...decoys,
        ...open.map((port) => ({ protocol: 'udp', port: String(port) }) as const),
        { protocol: 'udp', port: String(always) } as const,
      ]
      const fromMs = nowMs()
      await set(firewall(round % 2 === 0 ? rules : rules.toReversed()))
      history.push({ fromMs, untilMs: Infinity, open: new Set([always, ...open]) })
      if (round === 0) closedMs = nowMs()
      else history[round - 1]!.untilMs = nowMs()
    }
    const count = answers.length
    await waitFor(() => answers.length > count + 1000)
    const probes = answers.map((line) => line.split(' ').map(Number) as [number, number, number])
    const judged = probes.filter(([, seconds]) => seconds * 1000 > closedMs + 1)
    expect(judged.length).to.be.greaterThan(1000)
    const wrong = judged.filter(([port, seconds, answered]) => {
      const sentMs = seconds * 1000
      const inForce = history.filter(({ fromMs, untilMs }) => fromMs < sentMs + 100 && untilMs > sentMs - 1)
      return !inForce.some(({ open }) => open.has(port) === (answered === 1))
    })
    expect(wrong).to.deep.equal([])
    // All versions of the firewall permit the port `always`, and no version permits the port `never`.
    expect(judged.filter(([port, , answered]) => port === always && !answered)).to.deep.equal([])
    expect(judged.filter(([port, , answered]) => port === never && answered)).to.deep.equal([])
  })
})
