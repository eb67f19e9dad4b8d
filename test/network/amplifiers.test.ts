import { expect } from 'chai'
import type { AlertRecord } from '../../agent/abuse/alert-store.js'
import type { GuestNetwork } from '../../agent/network/contract.js'
import { guestsOf, mapping, python, silenceHalf, type Case } from '../support/attacks/abuse-cases.js'
import { guestPrefix6, hostAddress, NetworkLab, type AgentNetwork } from '../support/network/network-lab.js'
import { waitFor } from '../support/wait.js'

/*
 * In these tests, real servers in guests answer every request. For some seconds, an attacker outside sends requests
 * with the source address of a victim. All packets stay in network namespaces of the test.
 */

const victim = '198.19.200.9'
const victim6 = '2001:db8:98::9'
const seconds = 40

const valueBytes = 100_000
const getValue = Buffer.concat([Buffer.from('0001000000010000', 'hex'), Buffer.from('get v\r\n')])
const bigName = 'big.example'

/** A DNS query for all TXT records of a name, which permits an answer of 4,096 bytes (EDNS 0). */
function dnsQuestion(name: string): Buffer {
  const labels = name.split('.').flatMap((label) => [Buffer.from([label.length]), Buffer.from(label)])
  const head = Buffer.from('123401000001000000000001', 'hex')
  return Buffer.concat([head, ...labels, Buffer.from('00001000010000291000000000000000', 'hex')])
}

interface Amplifier extends Case {
  readonly port: number
  readonly victim: string
  /** Minimum ratio of the bytes that the server sends to the bytes that it receives. */
  readonly factor: number
}

/** IPv6 address of the guest that has this index in `amplifiers`. */
const ipv6Of = (index: number): string => `${guestPrefix6}${(index + 16).toString(16)}`
const memcached = ['/usr/bin/memcached', '-u', 'root', '-U', '11211', '-l', '0.0.0.0,::', '-m', '64'] as const
const texts = Array.from({ length: 14 }, (_, index) => `${index}`.padEnd(250, 't'))
const dnsmasq = [
  '/usr/sbin/dnsmasq',
  '--keep-in-foreground',
  '--conf-file=/dev/null',
  '--no-resolv',
  '--no-hosts',
  '--user=root',
  '--pid-file=',
  '--edns-packet-max=4096',
  `--txt-record=${bigName},${texts.join(',')}`,
] as const

/** Command that sends requests with the source address `from`. @param rate requests per second */
const forged = (from: string, to: readonly [address: string, port: number], payload: Buffer, rate: number) =>
  python('forged', from, to[0], String(to[1]), payload.toString('hex'), String(rate), String(seconds))

const amplifiers: readonly Amplifier[] = [
  {
    name: 'memcached',
    work: [...memcached],
    mapping: mapping('udp', 21_211, 11_211),
    client: forged(victim, [hostAddress, 21_211], getValue, 30),
    port: 11_211,
    victim,
    factor: 500,
  },
  {
    name: 'memcached over IPv6',
    work: [...memcached],
    client: forged(victim6, [ipv6Of(1), 11_211], getValue, 30),
    port: 11_211,
    victim: victim6,
    factor: 500,
  },
  {
    name: 'a name server',
    work: [...dnsmasq],
    mapping: mapping('udp', 21_053, 53),
    client: forged(victim, [hostAddress, 21_053], dnsQuestion(bigName), 1200),
    port: 53,
    victim,
    factor: 20,
  },
]

describe('servers in guests that answer requests whose source address was forged', function () {
  const lab = new NetworkLab('btestamp')
  let guests: ReadonlyMap<string, GuestNetwork>
  let watch: AgentNetwork
  let begunMs = 0

  before(async () => {
    lab.build()
    silenceHalf(lab)
    const network = lab.agent()
    guests = guestsOf(lab, amplifiers)
    await network.ensure([...guests.values()])
    for (const guest of guests.values()) lab.plug(guest)
    countForVictims()
    watch = lab.abuseWatch()
    await watch.call('start', { guests: [...guests.values()], mailServers: [] })
    for (const amplifier of amplifiers) await serve(amplifier)
    begunMs = performance.now()
    for (const { client } of amplifiers) lab.run(lab.client, ...client!)
  })
  after(() => lab.remove())

  /** Counts packets to victims. nft counts them before the client drops them. */
  function countForVictims(): void {
    const sets = amplifiers.map(({ port, victim: address }) => {
      const family = address.includes(':') ? 'ip6' : 'ip'
      return `add rule inet victims input ${family} daddr ${address} udp sport { 21053, 21211, ${port} } counter`
    })
    const chain = 'add chain inet victims input { type filter hook input priority -10; }'
    lab.in(lab.client, 'nft', ['add table inet victims', chain, ...sets].join('; '))
  }

  async function serve({ name, work, port }: Amplifier): Promise<void> {
    const namespace = lab.namespaceOf(guests.get(name)!)
    lab.run(namespace, ...work)
    if (port === 11_211) lab.in(namespace, ...python('keep_in_memcached', 'v', String(valueBytes)))
    else await waitFor(() => lab.in(namespace, 'ss', '-lnu').includes(':53 '), { what: 'it listens' })
  }

  for (const { name, victim: hit, port, factor } of amplifiers)
    it(`cause only a reflection alert of medium severity: ${name}`, async () => {
      const guest = guests.get(name)!
      let seen: AlertRecord[] = []
      const alertsOf = async (): Promise<AlertRecord[]> =>
        ((await watch.call('alerts')) as AlertRecord[]).filter(({ guestUuid }) => guestUuid === guest.uuid)
      await waitFor(async () => (seen = await alertsOf()).length > 0, {
        intervalMs: 200,
        what: () => `an alert; the victim has ${reached(hit)}`,
      })
      const tookMs = performance.now() - begunMs
      console.log(`      reported after ${(tookMs / 1000).toFixed(1)} s: ${seen[0]!.detail}`)
      expect(
        seen.map(({ severity, type, targetIp, targetPort }) => [severity, type, targetIp, targetPort]),
      ).to.deep.equal([['medium', 'reflection', '*', port]])
      expect(Number(/(\d+) times/.exec(seen[0]!.detail)?.[1])).to.be.at.least(factor)
    })

  function reached(address: string): string {
    const rules = lab.in(lab.client, 'nft', 'list', 'table', 'inet', 'victims').split('\n')
    return rules.find((line) => line.includes(address))?.trim() ?? 'nothing'
  }
})
