import { expect } from 'chai'
import { spawn, type ChildProcess } from 'node:child_process'
import { findProcess, readChildren } from '../../agent/host/process/proc.js'
import type { GuestNetwork, GuestRates } from '../../agent/network/contract.js'
import {
  expectMore,
  expectRate,
  Flow,
  isAbout,
  serveFlows,
  type FlowOptions,
  type Way,
} from '../support/network/flow.js'
import { AgentNetwork, clientAddress, NetworkLab } from '../support/network/network-lab.js'
import { nodeArguments } from '../support/programs.js'
import { waitFor } from '../support/wait.js'
import { deadlineOf } from '../support/promised-time.js'

/* Measures TCP rates between guests and a client outside. The agent's real nft tables and shaper handle the packets. */

const port = 5201

describe('the network rates of guests', function () {
  const lab = new NetworkLab('btestrate', { subnet: '10.78.0.0/24', interface_prefix: 'btr' })
  const a = lab.guest(11)
  const b = lab.guest(12)
  let server: ChildProcess
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
    server = await serveFlows(['ip', 'netns', 'exec', lab.client], port)
    shaper = startShaper()
  })
  after(() => {
    server?.kill('SIGKILL')
    lab.remove()
  })
  afterEach(() => shaper.call('ensure', [rates(a, 0, 0), rates(b, 0, 0)]))

  for (const mbps of [10, 100, 1000])
    it(`of ${mbps} Mbit/s are reached in both directions within 5 %`, async () => {
      await shaper.call('apply', rates(a, mbps, mbps))
      for (const way of ['down', 'up'] as const) await expectRate(flow(a, way), mbps)
    })

  it('apply separately to each guest and each direction at the same time', async () => {
    await shaper.call('ensure', [rates(a, 100, 20), rates(b, 50, 200)])
    await Promise.all([expectRate(flow(a, 'down'), 100), expectRate(flow(b, 'down'), 50)])
    await Promise.all([expectRate(flow(a, 'up'), 20), expectRate(flow(b, 'up'), 200)])
  })

  for (const way of ['down', 'up'] as const)
    it(`for ${way}loads can be raised and lowered while a connection is open`, async () => {
      const running = new Flow(flow(a, way))
      try {
        for (const mbps of [100, 10, 200]) {
          await shaper.call('apply', way === 'down' ? rates(a, mbps, 0) : rates(a, 0, mbps))
          await running.waitForRate(isAbout(mbps), `${mbps} Mbit/s ${way}`)
        }
      } finally {
        running.end()
      }
      expect(Math.min(...running.seen), running.seen.join(' ')).to.be.greaterThan(0)
    })

  for (const way of ['down', 'up'] as const)
    it(`for ${way}loads are reached by one connection, next to sixteen connections of another guest`, async () => {
      await shaper.call('ensure', [rates(a, 100, 100), rates(b, 50, 50)])
      const greedy = Array.from({ length: 16 }, () => new Flow(flow(a, way)))
      try {
        await Promise.all(greedy.map((each) => each.waitForRate((mbps) => mbps > 0, 'the sixteen')))
        await expectRate(flow(b, way), 50)
      } finally {
        for (const each of greedy) each.end()
      }
    })

  it('with the value 0 mean no limit, and leave no qdiscs or devices behind', async () => {
    await shaper.call('apply', rates(a, 10, 10))
    await shaper.call('apply', rates(a, 0, 0))
    await expectMore(flow(a, 'down'), 200)
    expect(qdiscsOf(a.device)).to.match(/^qdisc noqueue/)
    expect(qdiscsOf(a.device)).to.not.match(/htb|ingress/)
    expect(links()).to.not.contain(`${a.device}u`)
  })

  it('are not set again if they are already in force', async () => {
    const all = [rates(a, 10, 20), rates(b, 0, 0)]
    expect(await shaper.call('ensure', all)).to.deep.equal([`rates of ${a.device} set again`])
    expect(await shaper.call('ensure', all)).to.deep.equal([])
  })

  for (const [name, program, command] of [
    ['the deletion of the download qdisc', 'tc', `qdisc delete dev ${a.device} root`],
    ['the deletion of the ingress qdisc', 'tc', `qdisc delete dev ${a.device} ingress`],
    ['the deletion of the upload qdisc', 'tc', `qdisc delete dev ${a.device}u root`],
    ['the deletion of the queue below the download qdisc', 'tc', `qdisc delete dev ${a.device} parent d0:1`],
    ['the replacement of a qdisc', 'tc', `qdisc replace dev ${a.device} root tbf rate 1gbit burst 1mb latency 9ms`],
    ['the deletion of the device that shapes uploads', 'ip', `link delete dev ${a.device}u`],
  ] as const)
    it(`are set again after ${name}`, async () => {
      const all = [rates(a, 20, 20), rates(b, 0, 0)]
      await shaper.call('ensure', all)
      lab.in(lab.host, program, ...command.split(' '))
      expect(await shaper.call('ensure', all)).to.deep.equal([`rates of ${a.device} set again`])
      expect(await shaper.call('ensure', all)).to.deep.equal([])
      await expectBoth(20)
    })

  it('stop all packets of a disconnected guest, even if another program activates the guest’s interface', async () => {
    const reached = (): boolean => lab.probe(lab.namespaceOf(a), [`icmp,${clientAddress}`])[0]!
    await waitFor(reached, { what: 'the client' })
    const all = [{ ...rates(a, 20, 20), cut: true }, rates(b, 0, 0)]
    await shaper.call('apply', all[0]!)
    expect(reached()).to.equal(false)
    await shaper.call('ensure', all)
    lab.in(lab.host, 'ip', ...`link set dev ${a.device} up`.split(' '))
    expect(await shaper.call('ensure', all)).to.deep.equal([`rates of ${a.device} set again`])
    expect([await shaper.call('ensure', all), reached()]).to.deep.equal([[], false])
    expect(await shaper.call('ensure', [rates(a, 0, 0), rates(b, 0, 0)])).to.have.length(1)
    await waitFor(reached, { what: 'the client' })
  })

  it('are restored soon after the kernel reports that another program changed them', async () => {
    const all = [rates(a, 20, 20)]
    shaper.child.kill('SIGKILL')
    shaper = startShaper('watch')
    for (const command of [
      `tc class change dev ${a.device} classid d0:1 htb rate 900mbit`,
      `tc filter delete dev ${a.device} parent ffff:`,
      `ip link set dev ${a.device}u down`,
    ]) {
      await waitFor(async () => (await repairs(all)) === 0, { what: 'rest' })
      lab.in(lab.host, ...(command.split(' ') as [string]))
      await waitFor(async () => (await repairs(all)) === 1, { what: `repair after ${command}` })
    }
    await expectBoth(20)
  })

  it('are completed by the next check if tc was killed while it set them', async () => {
    shaper.child.kill('SIGKILL')
    shaper = startShaper('watch')
    const [before, wanted] = [[rates(a, 100, 0)], [rates(a, 20, 0)]]
    await waitFor(async () => (await repairs(before)) === 0, { what: 'rest' })
    await shaper.call('apply', before[0])
    const tc = readChildren(shaper.child.pid!).find((pid) => findProcess(pid)?.command === 'tc')
    process.kill(tc!, 'SIGSTOP')
    const failed = shaper.call('apply', wanted[0]).then(
      () => false,
      () => true,
    )
    process.kill(tc!, 'SIGKILL')
    expect(await failed).to.equal(true)
    expect(await repairs(wanted)).to.equal(1)
    await expectRate(flow(a, 'down'), 20)
  })

  it('are restored when an agent starts if another program changed them', async () => {
    const all = [rates(a, 20, 20)]
    await shaper.call('ensure', all)
    lab.in(lab.host, 'tc', ...`class change dev ${a.device} classid d0:1 htb rate 900mbit`.split(' '))
    lab.in(lab.host, 'tc', ...`filter delete dev ${a.device} parent ffff:`.split(' '))
    lab.in(lab.host, 'ip', ...`link set dev ${a.device}u down`.split(' '))
    shaper.child.kill('SIGKILL')
    shaper = startShaper()
    expect(await shaper.call('ensure', all)).to.deep.equal([`rates of ${a.device} set again`])
    await expectBoth(20)
  })

  it('are set on an interface that was created again, for example after a restart of the guest', async () => {
    const all = [rates(a, 20, 20), rates(b, 0, 0)]
    await shaper.call('ensure', all)
    lab.unplug(a)
    expect(await shaper.call('apply', rates(a, 20, 20)), 'no interface: nothing to do').to.equal(null)
    lab.plug(a)
    await shaper.call('apply', rates(a, 20, 20))
    await expectBoth(20)
    expect(await shaper.call('ensure', all)).to.deep.equal([])
  })

  it('are set immediately on a new interface that LXC created, for example when a guest reboots itself', async () => {
    shaper.child.kill('SIGKILL')
    shaper = startShaper('follow')
    try {
      await shaper.call('ensure', [rates(a, 20, 20)])
      lab.unplug(a)
      lab.plug(a)
      await waitFor(() => qdiscsOf(a.device).includes('htb'), {
        timeoutMs: deadlineOf(2000),
        what: 'its rates',
      })
      await expectBoth(20)
    } finally {
      shaper.child.kill('SIGKILL') // automatic repairs would disturb the following tests
      shaper = startShaper()
    }
  })

  it('are removed with the interface of the guest', async () => {
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

  it('are rejected before they reach tc if they are invalid', async () => {
    for (const wrong of [
      { ...rates(a, 10, 10), downMbps: -1 },
      { ...rates(a, 10, 10), upMbps: 1.5 },
      { ...rates(a, 10, 10), upMbps: 1e9 },
    ])
      expect(await shaper.call('apply', wrong).catch((error: Error) => error.message)).to.match(
        /the rates of interface .* are not valid/,
      )
    expect(await shaper.call('ensure', [{ ...rates(a, 1, 1), device: 'up0' }]).catch((e: Error) => e.message)).to.match(
      /the rates of interface .* are not valid/,
    )
  })

  function rates({ device }: GuestNetwork, downMbps: number, upMbps: number): GuestRates {
    return { device, downMbps, upMbps }
  }

  function flow(guest: GuestNetwork, way: Way): FlowOptions {
    return { at: ['ip', 'netns', 'exec', lab.namespaceOf(guest)], host: clientAddress, port, way }
  }

  async function expectBoth(mbps: number): Promise<void> {
    for (const way of ['down', 'up'] as const) await expectRate(flow(a, way), mbps)
  }

  async function repairs(all: readonly GuestRates[]): Promise<number> {
    return ((await shaper.call('ensure', all)) as string[]).length
  }

  function startShaper(...watch: ('watch' | 'follow')[]): AgentNetwork {
    const command = [process.execPath, ...nodeArguments('test/support/network/shaper-process.ts', 'btr', ...watch)]
    const argv = ['netns', 'exec', lab.host, ...command]
    return new AgentNetwork(spawn('ip', argv, { stdio: ['pipe', 'pipe', 'inherit'] }))
  }

  function qdiscsOf(device: string): string {
    return lab.in(lab.host, 'tc', 'qdisc', 'show', 'dev', device)
  }

  function links(): string {
    return lab.in(lab.host, 'ip', '-o', 'link', 'show')
  }
})
