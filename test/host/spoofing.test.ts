import { expect } from 'chai'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { macOf, parseSubnet } from '../../agent/network/subnet.js'
import { call } from '../support/host/agent-calls.js'
import { AgentProcess } from '../support/host/agent-process.js'
import { forgeries, right, type Scene, type Station } from '../support/network/forged-frames.js'
import { inMachine, installTools, kvm, lxc, machineAt } from '../support/guests/guest-kinds.js'
import { SettingsHost } from '../support/host/settings-host.js'
import { waitFor } from '../support/wait.js'
import { PublicSegment } from '../support/network/public-segment.js'
import { sh } from '../support/sh.js'

/*
 * Root of a real guest sends thousands of frames with addresses of others. No forged frame may reach another guest, the
 * host or a machine outside. Valid frames in between must arrive, which shows that nothing else drops frames.
 */

const tag = 'spo'
const bridge = `btest-${tag}`
/** Guests that attack. `ofKind`: number of forged frames of each kind. It is lower for the slow virtual machine. */
const attackers = [
  { kind: lxc, id: 11, own6: '2001:db8:9:1::11', ofKind: 1000 },
  { kind: kvm, id: 13, own6: '2001:db8:9:1::13', ofKind: 200 },
]
const neighbourId = 12
/** Number of forged frames between two valid ones. */
const rightAfter = 50
const [hostAddress, outside] = ['198.18.9.1', '198.18.9.2']
const [hostAddress6, outside6] = ['2001:db8:9::1', '2001:db8:9::2']
const segment = new PublicSegment('btestspo', { host: hostAddress, outside, host6: hostAddress6, outside6 })
const neighbour6 = '2001:db8:9:1::12'
const forwarding = 'net.ipv6.conf.all.forwarding'
const packets = fileURLToPath(new URL('../support/network/packets.py', import.meta.url))
const program = readFileSync(packets, 'utf8')
const python = '/usr/bin/python3'

describe('forged frames', function () {
  const children: ChildProcess[] = []
  let host: SettingsHost
  let neighbour = ''
  let forwardedBefore = '0'
  let seen: Record<'host' | 'neighbour' | 'outside', Set<string>>

  before(async () => {
    forwardedBefore = sh('sysctl', '-n', forwarding).trim()
    segment.make()
    const kinds = attackers.map(({ kind }) => kind)
    host = await SettingsHost.open(await AgentProcess.create(tag, { lxc: { stop_timeout_seconds: 1 } }), kinds)
    await setPrefix()
    neighbour = await host.create(neighbourId, 'neighbour', { ipv6Addresses: [neighbour6] })
    seen = {
      host: await sniff([], bridge),
      neighbour: await sniff(['nsenter', `--net=/proc/${pidOf(neighbour)}/ns/net`], 'eth0'),
      outside: await sniff(['ip', 'netns', 'exec', segment.name], 'eth0'),
    }
  })

  after(async () => {
    for (const child of children) child.kill('SIGKILL')
    await host?.destroy()
    segment.remove()
    sh('sysctl', '-qw', `${forwarding}=${forwardedBefore}`)
  })

  const filters = {
    'with a disabled firewall': { enabled: false, defaultAction: 'ACCEPT', rules: [] },
    'with an enabled firewall': { enabled: true, defaultAction: 'ACCEPT', rules: [] },
  }
  for (const { kind, id, own6, ofKind } of attackers)
    describe(`from a guest of kind ${kind.name}`, () => {
      let attacker = ''
      let scene: Scene
      let sender: Sender

      before(async () => {
        attacker = await host.create(id, `attacker-${kind.name}`, { ...kind.spec, ipv6Addresses: [own6] })
        scene = sceneOf(await stationOf(attacker), await stationOf(neighbour))
        sender = await Sender.start(await asRoot(attacker), children)
        await findWay()
      })
      after(() => host.power('delete', attacker))

      for (const [name, firewall] of Object.entries(filters))
        describe(name, () => {
          before(() => host.setFirewall(attacker, firewall))

          for (const [frames, forge] of Object.entries(forgeries))
            it(`are not delivered: ${frames} (${ofKind} frames)`, async () => {
              for (const markers of Object.values(seen)) markers.clear()
              const forged = Array.from({ length: ofKind }, (_, n) => forge(scene, { n, marker: `forged ${n}` }))
              const controls = Array.from({ length: ofKind / rightAfter }, (_, n) => `right ${n}`)
              const lines = controls.flatMap((marker, n) => [
                ...forged.slice(n * rightAfter, (n + 1) * rightAfter),
                right(scene, marker, n),
              ])
              expect(await sender.send(lines)).to.equal(ofKind + controls.length)
              const arrived = (markers: Set<string>) => controls.every((marker) => markers.has(marker))
              await waitFor(() => arrived(seen.host) && arrived(seen.outside), { what: 'the valid frames' })
              await toNeighbour(frames)
              for (const [who, markers] of Object.entries(seen)) {
                const got = [...markers].filter((marker) => marker.startsWith('forged'))
                expect(got, `at the ${who}`).to.deep.equal([])
              }
            })
        })

      it('do not bind the MAC of another guest to the sender’s bridge port', () => {
        const ways = new Map<string, string>()
        for (const line of sh(python, packets, 'fdb', bridge).trim().split('\n')) {
          const [mac = '', port = ''] = line.split(' ')
          ways.set(mac, port)
        }
        const portOf = (of: number): string =>
          String(Number(readFileSync(`/sys/class/net/x${tag}${of}/brport/port_no`, 'utf8')))
        expect(ways.get(scene.own.mac)).to.equal(portOf(id))
        expect([portOf(neighbourId), undefined]).to.include(ways.get(scene.neighbour.mac))
        expect([...ways.values()].filter((port) => port === portOf(id))).to.have.length(1)
      })

      /** Sends a frame to the neighbour. Bridges keep the order, so all earlier frames were handled when it arrives. */
      async function toNeighbour(marker: string): Promise<void> {
        const { gateway, neighbour } = scene
        const link = { ...scene, own: gateway, gateway: neighbour, outside: neighbour }
        sh(python, packets, 'send', bridge, right(link, marker))
        await waitFor(() => seen.neighbour.has(marker), { what: "the host's own frame" })
      }

      /** Waits until valid frames of the guest arrive outside, by IPv4 and by IPv6. */
      async function findWay(): Promise<void> {
        const isOpen = async (marker: string, n: number): Promise<boolean> => {
          await sender.send([right(scene, marker, n)])
          return seen.outside.has(marker)
        }
        await waitFor(() => isOpen('way 4', 0), { what: 'the way out' })
        await waitFor(() => isOpen('way 6', 1), { what: 'the way out in IPv6' })
      }
    })

  /**
   * Command prefix that runs packets.py as root in the network of the guest. For a container, the program has all
   * capabilities of the user namespace, which processes in the container do not have.
   */
  async function asRoot(uuid: string): Promise<string[]> {
    const { virtualization, ipv4 } = await waitFor(() => host.guest(uuid))
    if (virtualization === 'kvm') {
      await installTools(machineAt(ipv4))
      return [...inMachine(machineAt(ipv4)), python, packets]
    }
    const inside = ['--target', pidOf(uuid), '--user', '--net', '--setuid', '0', '--setgid', '0']
    return ['nsenter', ...inside, python, '-c', program]
  }

  async function sniff(at: readonly string[], device: string): Promise<Set<string>> {
    const [name = '', ...args] = [...at, python, packets, 'sniff', device]
    const child = spawn(name, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    children.push(child)
    const markers = new Set<string>()
    const lines = createInterface({ input: child.stdout })
    await once(lines, 'line')
    lines.on('line', (line) => markers.add(line))
    return markers
  }

  function pidOf(uuid: string): string {
    const name = `x${tag}-${host.guest(uuid).id}`
    return sh('lxc-info', '-P', join(host.agent.directory, 'state/lxc'), '-n', name, '-p', '-H').trim()
  }

  async function stationOf(uuid: string): Promise<Station> {
    const { mac, ipv4, ipv6 } = await waitFor(() => host.guest(uuid))
    return { mac, ipv4, ipv6 }
  }

  function sceneOf(own: Station, neighbour: Station): Scene {
    const { subnet } = host.agent.config['network'] as { subnet: string }
    const { gateway: ipv4 } = parseSubnet(subnet)
    const gateway = { mac: macOf(ipv4), ipv4, ipv6: 'fe80::1' }
    return { own, neighbour, gateway, outside: { ipv4: outside, ipv6: outside6 } }
  }

  async function setPrefix(): Promise<void> {
    const routing = host.agent.routing()
    const prefix = {
      interface: segment.uplink,
      address: '',
      prefix: '2001:db8:9:1::',
      prefixLen: 64,
      gateway: '',
    }
    const change = { ipv4Pool: undefined, ipv6Prefixes: { items: [prefix] }, nat4Ports: undefined, isChecked: false }
    await call(routing.setRouting.bind(routing), change).finally(() => routing.close())
  }
})

/** A process in a guest that sends frames without changing them. */
class Sender {
  private constructor(
    private readonly child: ChildProcess,
    private readonly lines: Interface,
  ) {}

  /** @param at command prefix that runs packets.py as root in the guest */
  static async start(at: readonly string[], children: ChildProcess[]): Promise<Sender> {
    const [name = '', ...args] = [...at, 'burst', 'eth0']
    const child = spawn(name, args, { stdio: ['pipe', 'pipe', 'inherit'], cwd: '/' })
    children.push(child)
    const lines = createInterface({ input: child.stdout })
    await once(lines, 'line')
    return new Sender(child, lines)
  }

  /** @returns the number of sent frames */
  async send(frames: readonly string[]): Promise<number> {
    const answer = once(this.lines, 'line')
    this.child.stdin!.write(`${frames.join('\n')}\n\n`)
    const [count] = (await answer) as [string]
    return Number(count)
  }
}
