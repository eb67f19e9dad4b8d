import { formatIpv4, parseIpv4 } from '../../../agent/network/subnet.js'
import { arpFrame, discoveryFrame, ipv4Frame, rawFrame, tagged, udp6Frame } from './frames.js'

/*
 * This file makes frames that a guest must not send. They have a forged source or are of a forbidden kind. A test
 * requests any number of variants of each kind. Tests recognize a frame by its marker: its kind and number.
 */

/** Addresses of a participant on the bridge. */
export interface Station {
  readonly mac: string
  readonly ipv4: string
  readonly ipv6: string
}

export interface Scene {
  readonly own: Station
  readonly neighbour: Station
  /** The host's own addresses on the bridge. */
  readonly gateway: Station
  /** A machine that is reachable only through the host. */
  readonly outside: Pick<Station, 'ipv4' | 'ipv6'>
}

type Forge = (scene: Scene, shape: { readonly n: number; readonly marker: string }) => string

const allNodes = { mac: '33:33:00:00:00:01', ipv6: 'ff02::1' }
const broadcast = 'ff:ff:ff:ff:ff:ff'

/** Returns a locally administered unicast MAC, different for each n. */
const macOf = (n: number): string => `02:66:${hexOf(n, 8).match(/../g)!.join(':')}`
const hexOf = (n: number, digits: number): string => n.toString(16).padStart(digits, '0')
const pick = <T>(items: readonly T[], n: number): T => items[n % items.length]!

/** Returns an address that is not the guest's own. It belongs to the neighbour, the host, nobody or another network. */
function otherIpv4({ own, neighbour, gateway, outside }: Scene, n: number): string {
  const near = formatIpv4(parseIpv4(own.ipv4)! + 100 + n)
  const fixed = [neighbour.ipv4, gateway.ipv4, outside.ipv4, '0.0.0.0', '255.255.255.255', '127.0.0.1']
  return n < 12 ? pick(fixed, n) : pick([near, `198.18.${n % 256}.${n >> 8}`, `224.0.${n >> 8}.${n % 256}`], n)
}

function otherIpv6({ neighbour, gateway, outside, own }: Scene, n: number): string {
  const near = own.ipv6.replace(/[^:]*$/, hexOf(0x4000 + n, 4))
  const fixed = [neighbour.ipv6, gateway.ipv6, outside.ipv6, '::', '::1', 'fe80::99']
  return n < 12 ? pick(fixed, n) : pick([near, `fe80::${hexOf(n, 4)}`, `2001:db8:9::${hexOf(n, 4)}`], n)
}

const otherMac = ({ neighbour, gateway }: Scene, n: number): string =>
  n < 10 ? pick([neighbour.mac, gateway.mac], n) : macOf(n)

/** EtherTypes other than IPv4, ARP and IPv6, and lengths (values below 0x600). */
const otherTypes = [0x0600, 0x0801, 0x8035, 0x809b, 0x80f3, 0x8137, 0x8847, 0x8863, 0x888e, 0x88cc, 0x88e5, 0x9000]

export const forgeries: Readonly<Record<string, Forge>> = {
  'IPv4 packets with a foreign MAC': (scene, { n, marker }) =>
    ipv4Frame(
      { from: otherMac(scene, n), to: scene.gateway.mac },
      { from: scene.own.ipv4, to: scene.outside.ipv4 },
      marker,
    ),
  'IPv6 packets with a foreign MAC': (scene, { n, marker }) =>
    udp6Frame(
      { from: otherMac(scene, n), to: scene.gateway.mac },
      { from: scene.own.ipv6, to: scene.outside.ipv6 },
      [4000, 9],
      marker,
    ),
  'IPv4 packets with a foreign address': (scene, { n, marker }) =>
    ipv4Frame(toGateway(scene), { from: otherIpv4(scene, n), to: scene.outside.ipv4 }, marker),
  'IPv6 packets with a foreign address': (scene, { n, marker }) =>
    udp6Frame(toGateway(scene), { from: otherIpv6(scene, n), to: scene.outside.ipv6 }, [4000, 9], marker),
  'IP packets with the MAC and the address of another guest': ({ neighbour, gateway, outside }, { n, marker }) =>
    n % 2
      ? ipv4Frame({ from: neighbour.mac, to: gateway.mac }, { from: neighbour.ipv4, to: outside.ipv4 }, marker)
      : udp6Frame(
          { from: neighbour.mac, to: gateway.mac },
          { from: neighbour.ipv6, to: outside.ipv6 },
          [4000, 9],
          marker,
        ),
  'ARP packets that claim a foreign address': (scene, { n, marker }) => {
    const target = pick([scene.neighbour.ipv4, scene.gateway.ipv4], n)
    const ipv4 = otherIpv4(scene, n)
    return arpFrame(scene.own.mac, { mac: scene.own.mac, ipv4, target, operation: 1 + (n % 2) }, marker)
  },
  'ARP packets with a foreign MAC': (scene, { n, marker }) => {
    const other = otherMac(scene, n)
    const [inside, around] = pick(
      [
        [other, scene.own.mac],
        [scene.own.mac, other],
        [other, other],
      ] as const,
      n,
    )
    const arp = { mac: inside, ipv4: scene.own.ipv4, target: scene.gateway.ipv4, operation: 1 + (n % 4) }
    return arpFrame(around, arp, marker)
  },
  'neighbour solicitations with a foreign address': (scene, { n, marker }) => {
    // Any guest may send from `::`, which means that the guest has no address yet. So `::` is not a forged address.
    const from = otherIpv6(scene, n) === '::' ? scene.gateway.ipv6 : otherIpv6(scene, n)
    const target = pick([scene.gateway.ipv6, scene.neighbour.ipv6], n)
    const message = { type: 135, target, linkAddress: scene.own.mac }
    return discoveryFrame(toGateway(scene), { from, to: scene.gateway.ipv6 }, message, marker)
  },
  'neighbour advertisements': (scene, { n, marker }) =>
    discoveryFrame(
      { from: scene.own.mac, to: pick([allNodes.mac, scene.neighbour.mac, scene.gateway.mac], n) },
      { from: scene.own.ipv6, to: allNodes.ipv6 },
      { type: 136, target: n % 4 ? otherIpv6(scene, n) : scene.own.ipv6, linkAddress: otherMac(scene, n) },
      marker,
    ),
  'router advertisements': (scene, { n, marker }) =>
    discoveryFrame(
      { from: scene.own.mac, to: pick([allNodes.mac, scene.neighbour.mac, scene.gateway.mac], n) },
      {
        from: pick([scene.gateway.ipv6, scene.own.ipv6, `fe80::${hexOf(n, 4)}`], Math.floor(n / 3)),
        to: allNodes.ipv6,
      },
      { type: 134, linkAddress: otherMac(scene, n) },
      marker,
    ),
  redirects: (scene, { n, marker }) =>
    discoveryFrame(
      { from: scene.own.mac, to: pick([scene.neighbour.mac, scene.gateway.mac], n) },
      { from: pick([scene.gateway.ipv6, scene.own.ipv6], n), to: scene.neighbour.ipv6 },
      { type: 137, target: otherIpv6(scene, n), linkAddress: scene.own.mac },
      marker,
    ),
  'answers of a DHCP server': (scene, { n, marker }) =>
    ipv4Frame(
      { from: scene.own.mac, to: pick([broadcast, scene.neighbour.mac, scene.gateway.mac], n) },
      { from: scene.own.ipv4, to: pick(['255.255.255.255', scene.neighbour.ipv4], n), sport: 67 },
      marker,
    ),
  'answers of a DHCPv6 server': (scene, { n, marker }) =>
    udp6Frame(
      { from: scene.own.mac, to: pick([allNodes.mac, scene.neighbour.mac, scene.gateway.mac], n) },
      { from: scene.own.ipv6, to: pick([allNodes.ipv6, scene.neighbour.ipv6], n) },
      [547, 546],
      marker,
    ),
  'frames with a VLAN tag': (scene, { n, marker }) => tagged(right(scene, marker, n), 0x8100, n),
  'frames with two VLAN tags': (scene, { n, marker }) =>
    tagged(tagged(right(scene, marker, n), 0x8100, n), pick([0x88a8, 0x8100, 0x9100], n), n % 4095),
  'frames of an unusual ether type': (scene, { n, marker }) =>
    rawFrame(
      { from: scene.own.mac, to: pick([broadcast, scene.neighbour.mac, scene.gateway.mac], n) },
      n % 2 ? pick(otherTypes, n) : 1 + (n % 0x5ff),
      marker,
    ),
  'frames to a bridge group address': (scene, { n, marker }) =>
    rawFrame({ from: otherMac(scene, n), to: `01:80:c2:00:00:${hexOf(n % 16, 2)}` }, pick(otherTypes, n), marker),
  'frames sent directly to the MAC of another guest': ({ own, neighbour }, { n, marker }) =>
    n % 2
      ? ipv4Frame({ from: own.mac, to: neighbour.mac }, { from: own.ipv4, to: neighbour.ipv4 }, marker)
      : udp6Frame({ from: own.mac, to: neighbour.mac }, { from: own.ipv6, to: neighbour.ipv6 }, [4000, 9], marker),
}

/** Makes a valid frame of a guest: from its own address to a machine outside. */
export function right(scene: Scene, marker: string, n = 0): string {
  const { own, outside } = scene
  return n % 2
    ? udp6Frame(toGateway(scene), { from: own.ipv6, to: outside.ipv6 }, [4000, 9], marker)
    : ipv4Frame(toGateway(scene), { from: own.ipv4, to: outside.ipv4 }, marker)
}

function toGateway({ own, gateway }: Scene): { from: string; to: string } {
  return { from: own.mac, to: gateway.mac }
}
