import { expect } from 'chai'
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { GuestNetwork, GuestRates } from '../../agent/network/contract.js'
import { AgentNetwork, clientAddress, NetworkLab } from '../support/network-lab.js'
import { waitFor } from '../support/wait.js'

/* Rates as iperf3 measures them, between guests and a client outside, through the agent's own tables. */

const shaperProcess = fileURLToPath(new URL('../support/shaper-process.ts', import.meta.url))
const tolerance = 0.05
const firstPort = 5201

interface Measured {
  readonly end: { readonly sum_received: { readonly bits_per_second: number } }
  readonly intervals: readonly { readonly sum: { readonly bits_per_second: number } }[]
}

describe('rates', function () {
  this.timeout(120_000)
  const lab = new NetworkLab('btestrate', { subnet: '10.78.0.0/24', interface_prefix: 'btr' })
  const a = lab.guest(11)
  const b = lab.guest(12)
  const servers: ChildProcess[] = []
  let network: AgentNetwork
  let shaper: AgentNetwork

  before(async () => {
    lab.build()
    network = lab.agent()
    await network.ensure([a, b])
    for (const guest of [a, b]) {
      await network.call('attach', guest)
      lab.plug(guest)
    }
    for (const port of [firstPort, firstPort + 1]) servers.push(serve(port))
    shaper = startShaper()
    await waitFor(() => lab.ask(lab.namespaceOf(a), `tcp:${clientAddress}:${firstPort + 1}`) !== undefined)
    await Promise.all([firstPort, firstPort + 1].map((port) => waitFor(() => listens(port))))
  })
  after(() => {
    for (const server of servers) server.kill('SIGKILL')
    lab.remove()
  })
  afterEach(() => shaper.call('ensure', [rates(a, 0, 0), rates(b, 0, 0)]))

  for (const mbps of [10, 100, 1000])
    it(`${mbps} Mbit/s in both directions, within 5 %`, async () => {
      await shaper.call('apply', rates(a, mbps, mbps))
      expect(await measure(a, 'down')).to.be.closeTo(mbps, mbps * tolerance)
      expect(await measure(a, 'up')).to.be.closeTo(mbps, mbps * tolerance)
    })

  it('each direction has a rate of its own, and each guest, at the same time', async () => {
    await shaper.call('ensure', [rates(a, 100, 20), rates(b, 50, 200)])
    const down = await Promise.all([measure(a, 'down'), measure(b, 'down', firstPort + 1)])
    expectRates(down, [100, 50])
    const up = await Promise.all([measure(a, 'up'), measure(b, 'up', firstPort + 1)])
    expectRates(up, [20, 200])
  })

  it('changes under a running connection, up and down, without breaking it', async () => {
    await shaper.call('apply', rates(a, 100, 0))
    const running = iperf(a, 'down', { seconds: 9 })
    const sent = countDown(a)
    await waitFor(() => countDown(a) - sent > 25_000_000, { what: 'two seconds of 100 Mbit/s' })
    await shaper.call('apply', rates(a, 10, 0))
    const slowFrom = countDown(a)
    await waitFor(() => countDown(a) - slowFrom > 4_000_000, { what: 'three seconds of 10 Mbit/s' })
    await shaper.call('apply', rates(a, 200, 0))
    const seen = (await running).intervals.map(({ sum }) => Math.round(sum.bits_per_second / 1e6))
    const around = (mbps: number): number =>
      seen.filter((value) => Math.abs(value - mbps) <= mbps * tolerance).length
    expect([around(100) > 0, around(10) > 0, around(200) > 0], seen.join(' ')).to.deep.equal([
      true,
      true,
      true,
    ])
    expect(
      seen.every((value) => value > 0),
      seen.join(' '),
    ).to.equal(true)
  })

  it('0 is unlimited and leaves nothing behind', async () => {
    await shaper.call('apply', rates(a, 10, 10))
    await shaper.call('apply', rates(a, 0, 0))
    expect(await measure(a, 'down')).to.be.greaterThan(200)
    expect(qdiscsOf(a.device)).to.match(/^qdisc noqueue/)
    expect(qdiscsOf(a.device)).to.not.match(/htb|ingress/)
    expect(links()).to.not.contain(`${a.device}u`)
  })

  it('a converged host is left alone', async () => {
    const all = [rates(a, 10, 20), rates(b, 0, 0)]
    expect(await shaper.call('ensure', all)).to.deep.equal([`rates of ${a.device} set anew`])
    expect(await shaper.call('ensure', all)).to.deep.equal([])
  })

  for (const [name, program, command] of [
    ['a deleted download qdisc', 'tc', `qdisc delete dev ${a.device} root`],
    ['a deleted upload hook', 'tc', `qdisc delete dev ${a.device} ingress`],
    ['a deleted upload qdisc', 'tc', `qdisc delete dev ${a.device}u root`],
    ['a deleted queue', 'tc', `qdisc delete dev ${a.device} parent d0:1`],
    [
      'another qdisc in its place',
      'tc',
      `qdisc replace dev ${a.device} root tbf rate 1gbit burst 1mb latency 9ms`,
    ],
    ['a deleted intermediate device', 'ip', `link delete dev ${a.device}u`],
  ] as const)
    it(`${name} is noticed and repaired`, async () => {
      const all = [rates(a, 20, 20), rates(b, 0, 0)]
      await shaper.call('ensure', all)
      lab.in(lab.host, program, ...command.split(' '))
      expect(await shaper.call('ensure', all)).to.deep.equal([`rates of ${a.device} set anew`])
      expect(await shaper.call('ensure', all)).to.deep.equal([])
      expectRates([await measure(a, 'down'), await measure(a, 'up')], [20, 20])
    })

  it('one that is cut off reaches nobody, also after another program brought it up', async () => {
    const reached = (): boolean => lab.probe(lab.namespaceOf(a), [`icmp,${clientAddress}`])[0]!
    await waitFor(reached, { what: 'the client' })
    const all = [{ ...rates(a, 20, 20), cut: true }, rates(b, 0, 0)]
    await shaper.call('apply', all[0]!)
    expect(reached()).to.equal(false)
    await shaper.call('ensure', all)
    lab.in(lab.host, 'ip', ...`link set dev ${a.device} up`.split(' '))
    expect(await shaper.call('ensure', all)).to.deep.equal([`rates of ${a.device} set anew`])
    expect([await shaper.call('ensure', all), reached()]).to.deep.equal([[], false])
    expect(await shaper.call('ensure', [rates(a, 0, 0), rates(b, 0, 0)])).to.have.length(1)
    await waitFor(reached, { what: 'the client' })
  })

  it('what only a close look finds is repaired by the first comparison of another agent', async () => {
    const all = [rates(a, 20, 20)]
    await shaper.call('ensure', all)
    lab.in(lab.host, 'tc', ...`class change dev ${a.device} classid d0:1 htb rate 900mbit`.split(' '))
    lab.in(lab.host, 'tc', ...`filter delete dev ${a.device} parent ffff:`.split(' '))
    lab.in(lab.host, 'ip', ...`link set dev ${a.device}u down`.split(' '))
    shaper.child.kill('SIGKILL')
    shaper = startShaper()
    expect(await shaper.call('ensure', all)).to.deep.equal([`rates of ${a.device} set anew`])
    expectRates([await measure(a, 'down'), await measure(a, 'up')], [20, 20])
  })

  it('an interface made anew, as a guest’s restart does, is limited again', async () => {
    const all = [rates(a, 20, 20), rates(b, 0, 0)]
    await shaper.call('ensure', all)
    lab.unplug(a)
    expect(await shaper.call('apply', rates(a, 20, 20)), 'no interface: nothing to do').to.equal(null)
    lab.plug(a)
    await shaper.call('apply', rates(a, 20, 20))
    expectRates([await measure(a, 'down'), await measure(a, 'up')], [20, 20])
    expect(await shaper.call('ensure', all)).to.deep.equal([])
  })

  it('nothing is left of a guest whose interface is gone', async () => {
    await shaper.call('ensure', [rates(a, 20, 20), rates(b, 20, 20)])
    lab.unplug(a)
    expect(await shaper.call('ensure', [rates(b, 20, 20)])).to.deep.equal([`${a.device}u removed`])
    lab.unplug(b)
    await shaper.call('remove', b.device)
    expect(links()).to.not.match(/btr\d+/)
    for (const guest of [a, b]) lab.plug(guest)
    await shaper.call('ensure', [rates(a, 20, 20), rates(b, 20, 20)])
    await shaper.call('removeAll')
    expect(links()).to.not.match(/btr\d+u/)
  })

  it('what is no rate of a guest is refused before it reaches tc', async () => {
    for (const wrong of [
      { ...rates(a, 10, 10), downMbps: -1 },
      { ...rates(a, 10, 10), upMbps: 1.5 },
      { ...rates(a, 10, 10), upMbps: 1e9 },
    ])
      expect(await shaper.call('apply', wrong).catch((error: Error) => error.message)).to.contain(
        'out of their rules',
      )
    expect(
      await shaper.call('ensure', [{ ...rates(a, 1, 1), device: 'up0' }]).catch((e: Error) => e.message),
    ).to.contain('out of their rules')
  })

  function rates({ device }: GuestNetwork, downMbps: number, upMbps: number): GuestRates {
    return { device, downMbps, upMbps }
  }

  function expectRates(measured: readonly number[], wanted: readonly number[]): void {
    for (const [index, mbps] of wanted.entries())
      expect(measured[index]).to.be.closeTo(mbps, mbps * tolerance)
  }

  function startShaper(): AgentNetwork {
    const argv = ['netns', 'exec', lab.host, process.execPath, '--import', 'tsx', shaperProcess, 'btr']
    return new AgentNetwork(spawn('ip', argv, { stdio: ['pipe', 'pipe', 'inherit'] }))
  }

  function serve(port: number): ChildProcess {
    return spawn('ip', ['netns', 'exec', lab.client, 'iperf3', '-s', '-p', String(port)], { stdio: 'ignore' })
  }

  function listens(port: number): boolean {
    return lab.in(lab.client, 'ss', '-Hltn').includes(`:${port} `)
  }

  async function iperf(
    guest: GuestNetwork,
    way: 'down' | 'up',
    { seconds = 5, port = firstPort } = {},
  ): Promise<Measured> {
    // What a receiver that had no processor for a moment finds in its socket counts from the second after: it must
    // be little beside the whole.
    const argv = ['-c', clientAddress, '-p', `${port}`, '-t', `${seconds}`, '-O', '2', '-J']
    const command = [
      'netns',
      'exec',
      lab.namespaceOf(guest),
      'iperf3',
      ...argv,
      ...(way === 'down' ? ['-R'] : []),
    ]
    const { stdout } = await promisify(execFile)('ip', command, { maxBuffer: 8 * 1024 * 1024 })
    return JSON.parse(stdout) as Measured
  }

  /** Mbit/s that arrive. */
  async function measure(guest: GuestNetwork, way: 'down' | 'up', port = firstPort): Promise<number> {
    return (await iperf(guest, way, { port })).end.sum_received.bits_per_second / 1e6
  }

  /** Bytes sent to the guest. */
  function countDown({ device }: GuestNetwork): number {
    return Number(lab.in(lab.host, 'cat', `/sys/class/net/${device}/statistics/tx_bytes`))
  }

  function qdiscsOf(device: string): string {
    return lab.in(lab.host, 'tc', 'qdisc', 'show', 'dev', device)
  }

  function links(): string {
    return lab.in(lab.host, 'ip', '-o', 'link', 'show')
  }
})
