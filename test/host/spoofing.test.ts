import { expect } from 'chai'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { macOf, parseSubnet } from '../../agent/network/subnet.js'
import { call } from '../support/agent-calls.js'
import { AgentProcess } from '../support/agent-process.js'
import { forgeries, right, type Scene, type Station } from '../support/forged-frames.js'
import { SettingsHost } from '../support/settings-host.js'
import { waitFor } from '../support/wait.js'
import { PublicSegment } from '../support/public-segment.js'
import { sh } from '../support/sh.js'

/*
 * What root of a real guest sends in the name of others, by the thousand: none of it reaches a neighbour, the host or
 * what is behind the host. In between goes what is right, so that silence is not mistaken for protection.
 */

const tag = 'spo'
const bridge = `btest-${tag}`
const ofKind = 1000
/** A right one follows that many forged ones. */
const rightAfter = 50
const [hostAddress, outside] = ['198.18.9.1', '198.18.9.2']
const [hostAddress6, outside6] = ['2001:db8:9::1', '2001:db8:9::2']
const segment = new PublicSegment('btestspo', {
  ...{ host: hostAddress, outside, host6: hostAddress6, outside6 },
})
const [own6, neighbour6] = ['2001:db8:9:1::11', '2001:db8:9:1::12']
const forwarding = 'net.ipv6.conf.all.forwarding'
const packets = fileURLToPath(new URL('../support/packets.py', import.meta.url))
const program = readFileSync(packets, 'utf8')

describe('a guest that sends in the name of others', function () {
  this.timeout(60_000)
  const children: ChildProcess[] = []
  let host: SettingsHost
  let scene: Scene
  let [attacker, forwardedBefore] = ['', '0']
  let seen: Record<'host' | 'neighbour' | 'outside', Set<string>>

  before(async () => {
    forwardedBefore = sh('sysctl', '-n', forwarding).trim()
    segment.make()
    host = await SettingsHost.open(await AgentProcess.create(tag, { lxc: { stop_timeout_seconds: 1 } }))
    await setPrefix()
    attacker = await host.create(11, 'attacker', { ipv6Addresses: [own6] })
    const neighbour = await host.create(12, 'neighbour', { ipv6Addresses: [neighbour6] })
    scene = sceneOf(await stationOf(attacker), await stationOf(neighbour))
    seen = {
      host: await sniff([], bridge),
      neighbour: await sniff(['nsenter', `--net=/proc/${pidOf(neighbour)}/ns/net`], 'eth0'),
      outside: await sniff(['ip', 'netns', 'exec', segment.name], 'eth0'),
    }
    await findWay()
  })

  after(async () => {
    for (const child of children) child.kill('SIGKILL')
    await host?.destroy()
    segment.remove()
    sh('sysctl', '-qw', `${forwarding}=${forwardedBefore}`)
  })

  const filters = {
    'its firewall off': { enabled: false, defaultAction: 'ACCEPT', rules: [] },
    'its firewall on': { enabled: true, defaultAction: 'ACCEPT', rules: [] },
  }
  for (const [name, firewall] of Object.entries(filters))
    describe(name, () => {
      before(() => host.setFirewall(attacker, firewall))

      for (const [kind, forge] of Object.entries(forgeries))
        it(`${ofKind} × ${kind}: not one arrives`, async () => {
          for (const markers of Object.values(seen)) markers.clear()
          const forged = Array.from({ length: ofKind }, (_, n) => forge(scene, { n, marker: `forged ${n}` }))
          const controls = Array.from({ length: ofKind / rightAfter }, (_, n) => `right ${n}`)
          const lines = controls.flatMap((marker, n) => [
            ...forged.slice(n * rightAfter, (n + 1) * rightAfter),
            right(scene, marker, n),
          ])
          expect(burst(lines)).to.equal(ofKind + controls.length)
          const arrived = (markers: Set<string>) => controls.every((marker) => markers.has(marker))
          await waitFor(() => arrived(seen.host) && arrived(seen.outside), { what: 'what is right' })
          await toNeighbour(kind)
          for (const [who, markers] of Object.entries(seen)) {
            const got = [...markers].filter((marker) => marker.startsWith('forged'))
            expect(got, `at the ${who}`).to.deep.equal([])
          }
        })
    })

  describe('after all that', () => {
    it('draws nobody’s traffic to itself', () => {
      const ways = new Map<string, string>()
      for (const line of sh('/usr/bin/python3', packets, 'fdb', bridge).trim().split('\n')) {
        const [mac = '', port = ''] = line.split(' ')
        ways.set(mac, port)
      }
      const portOf = (id: number): string =>
        String(Number(readFileSync(`/sys/class/net/x${tag}${id}/brport/port_no`, 'utf8')))
      expect(ways.get(scene.own.mac)).to.equal(portOf(11))
      expect([portOf(12), undefined]).to.include(ways.get(scene.neighbour.mac))
      expect([...ways.values()].filter((port) => port === portOf(11))).to.have.length(1)
    })
  })

  /** All before it was handled once this is seen: the bridge keeps the order of what it sends to a guest. */
  async function toNeighbour(marker: string): Promise<void> {
    const { gateway, neighbour } = scene
    const link = { ...scene, own: gateway, gateway: neighbour, outside: neighbour }
    sh('/usr/bin/python3', packets, 'send', bridge, right(link, marker))
    await waitFor(() => seen.neighbour.has(marker), { what: "the host's own frame" })
  }

  /** A guest's interface begins to forward a moment after it is up, and the way out is looked up by then. */
  async function findWay(): Promise<void> {
    const isOpen = (marker: string, n: number): boolean => {
      burst([right(scene, marker, n)])
      return seen.outside.has(marker)
    }
    await waitFor(() => isOpen('way 4', 0), { what: 'the way out' })
    await waitFor(() => isOpen('way 6', 1), { what: 'the way out in IPv6' })
  }

  /**
   * As root of the guest in its own network, with all the capabilities there are in the guest's user namespace: more
   * than its processes have. The tool is the host's, for the guest's image has none.
   */
  function burst(frames: readonly string[]): number {
    const inside = ['--target', pidOf(attacker), '--user', '--net', '--setuid', '0', '--setgid', '0']
    const { stdout, stderr } = spawnSync(
      'nsenter',
      [...inside, '/usr/bin/python3', '-c', program, 'burst', 'eth0'],
      { input: `${frames.join('\n')}\n`, encoding: 'utf8', cwd: '/' },
    )
    expect(stderr).to.equal('')
    return Number(stdout)
  }

  async function sniff(at: readonly string[], device: string): Promise<Set<string>> {
    const [name = '', ...args] = [...at, '/usr/bin/python3', packets, 'sniff', device]
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
    const change = { ipv4Pool: undefined, ipv6Prefixes: { items: [prefix] }, nat4Ports: undefined }
    await call(routing.setRouting.bind(routing), change).finally(() => routing.close())
  }
})
