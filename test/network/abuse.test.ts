import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import type { AbuseLogs } from '../../agent/abuse/abuse-watch.js'
import type { AlertRecord } from '../../agent/abuse/alert-store.js'
import type { GuestNetwork } from '../../agent/network/contract.js'
import { severities, type AbuseType, type Severity } from '../../shared/abuse.js'
import {
  begin,
  guestsOf,
  honest,
  makeServers,
  mapping,
  nmap,
  onlyOurPool,
  python,
  servers,
  shell,
  silenceHalf,
  type Case,
} from '../support/attacks/abuse-cases.js'
import {
  clientAddress,
  clientAddress6,
  hostAddress,
  NetworkLab,
  type AgentNetwork,
} from '../support/network/network-lab.js'
import { eventually, patienceMs, waitFor } from '../support/wait.js'

/*
 * Runs real programs in network namespaces. Each guest does one kind of work, all at the same time, with limited rates
 * and only towards namespaces of the test. The client has 65,536 addresses, of which the upper half does not answer.
 */

const refusing = '198.19.1.1'
const silent = '198.19.200.1'
const refusing6 = '2001:db8:99::1'
const silent6 = '2001:db8:98::1'
/** An alert is raised within this time if the machine is idle. The test prints the actual time. */
const promisedMs = 30_000
const deadlineMs = patienceMs

interface Attack extends Case {
  /** The alert that the attack must cause. Its severity may also be higher. */
  readonly alert: readonly [severity: Severity, type: AbuseType, target: string, port: number]
}

const attacks: readonly Attack[] = [
  {
    name: 'a scan by refused connections',
    work: nmap('-sT', '-p1-400', refusing),
    alert: ['high', 'port_scan', refusing, 0],
  },
  {
    name: 'a scan by unanswered SYN packets',
    work: nmap('-sS', '-p1-120', silent),
    alert: ['high', 'port_scan', silent, 0],
  },
  {
    name: 'a scan by refused UDP packets',
    work: nmap('-sU', '-p1-60', refusing),
    alert: ['medium', 'port_scan', refusing, 0],
  },
  {
    name: 'a scan by unanswered UDP packets',
    work: nmap('-sU', '-p1-60', silent),
    alert: ['medium', 'port_scan', silent, 0],
  },
  {
    name: 'a scan by refused IPv6 connections',
    work: nmap('-6', '-sS', '-p1-120', refusing6),
    alert: ['high', 'port_scan', refusing6, 0],
  },
  {
    name: 'a scan by unanswered IPv6 packets',
    work: nmap('-6', '-sS', '-p1-120', silent6),
    alert: ['high', 'port_scan', silent6, 0],
  },
  {
    name: 'a scan of the same port on many addresses',
    work: ['masscan', '198.19.2.0/24', '-p445', '--rate', '400', '--wait', '0'],
    alert: ['high', 'horizontal_scan', '*', 445],
  },
  {
    name: 'a scan of the same port on many addresses that do not answer',
    work: nmap('-sS', '-p3389', '198.19.201.0/25'),
    alert: ['high', 'horizontal_scan', '*', 3389],
  },
  {
    name: 'password guessing',
    work: python('guess', '198.19.3.3', '21', '45'),
    alert: ['high', 'brute_force', '198.19.3.3', 21],
  },
  {
    name: 'password guessing by ncrack',
    work: [
      ...(['ncrack', '-p', 'ssh:22', '--user', 'root', '-P'] as const),
      '/usr/share/ncrack/default.usr',
      '-g',
      'CL=4,cr=100',
      '198.19.3.4',
    ],
    alert: ['medium', 'brute_force', '198.19.3.4', 22],
  },
  {
    name: 'password guessing over IPv6',
    work: python('guess', clientAddress6, '21', '45'),
    alert: ['high', 'brute_force', clientAddress6, 21],
  },
  {
    name: 'spam sent with swaks',
    work: shell(
      'for n in $(seq 35); do swaks --silent 3 --server 198.19.4.4 --from a@example.org --to b@example.org; done',
    ),
    guest: { sendsMail: true },
    alert: ['medium', 'spam', '198.19.4.4', 25],
  },
  {
    name: 'mining in a mining pool',
    work: python('mine', '198.19.5.5', '9876'),
    alert: ['high', 'mining', '198.19.5.5', 9876],
  },
  {
    name: 'an open proxy',
    work: python('socks', '1080'),
    mapping: mapping('tcp', 21_080, 1080),
    client: python('through', hostAddress, '21080'),
    alert: ['medium', 'proxy', clientAddress, 1080],
  },
  {
    name: 'a server that amplifies requests',
    work: python('amplifier', '11211', '1300', '100'),
    mapping: mapping('udp', 21_211, 11_211),
    client: python('request', hostAddress, '21211', '1500', '20'),
    alert: ['medium', 'reflection', '*', 11211],
  },
  {
    name: 'a flood of SYN packets',
    work: ['hping3', '-q', '-S', '-p', '80', '-i', 'u1000', '-c', '22000', silent],
    alert: ['high', 'ddos', silent, 80],
  },
  {
    name: 'a flood with a foreign source address',
    work: ['hping3', '-q', '-S', '-p', '80', '-a', '203.0.113.66', '-i', 'u4000', '-c', '5500', refusing],
    alert: ['high', 'ddos', '*', 0],
  },
  {
    name: 'a slow scan',
    work: python('attempt', silent, '1000-1060', '1', '60'),
    alert: ['medium', 'port_scan', silent, 0],
  },
]

/** Harmless work of guests for only 28 s. scripts/abuse-workloads runs each work for ten minutes. */
const usual = honest(28)

describe('abuse by guests', function () {
  const lab = new NetworkLab('btestabuse')
  const directory = mkdtempSync(join(tmpdir(), 'btest-abuse-'))
  const all: readonly Case[] = [...attacks, ...usual]
  let guests: ReadonlyMap<string, GuestNetwork>
  let network: AgentNetwork
  let watch: AgentNetwork
  let startedMs: number
  let startedAtMs: number

  const alertsOf = async (name: string): Promise<AlertRecord[]> => {
    const alerts = (await watch.call('alerts')) as AlertRecord[]
    return alerts.filter(({ guestUuid }) => guestUuid === guests.get(name)!.uuid)
  }

  before(async () => {
    lab.build()
    silenceHalf(lab)
    network = lab.agent()
    guests = guestsOf(lab, all)
    await network.ensure([...guests.values()])
    for (const guest of guests.values()) lab.plug(guest)
    makeServers(lab, directory)
    watch = lab.abuseWatch({ close_smtp: false, ...onlyOurPool })
    const mailServers = [guests.get('mail of a mail server')!.uuid]
    await watch.call('start', { guests: [...guests.values()], mailServers })
    await waitFor(() => lab.probe(lab.namespaceOf([...guests.values()][0]!), servers)[0], { what: 'servers' })
    startedMs = performance.now()
    startedAtMs = Date.now()
    begin(lab, all, { guests, directory })
  })
  after(() => {
    lab.remove()
    rmSync(directory, { recursive: true, force: true })
  })

  for (const { name, alert } of attacks)
    it(`is reported as ${alert[1]} with at least ${alert[0]} severity: ${name}`, async () => {
      const [severity, type, target, port] = alert
      let seen: AlertRecord[] = []
      const isFound = (one: AlertRecord): boolean =>
        severities.indexOf(one.severity) >= severities.indexOf(severity) &&
        one.type === type &&
        one.targetIp === target &&
        one.targetPort === port
      await waitFor(async () => (seen = await alertsOf(name)).some(isFound), {
        timeoutMs: Math.max(10_000, deadlineMs - (performance.now() - startedMs)),
        intervalMs: 200,
        what: () => `${alert.join(' ')}; there is ${JSON.stringify(seen)}`,
      })
      expect([...new Set(seen.map((one) => one.type))]).to.deep.equal([type])
      const first = Math.min(...seen.map(({ firstAtMs }) => firstAtMs))
      console.log(`      reported after ${((first - startedAtMs) / 1000).toFixed(1)} s`)
    })

  it('is not reported for guests without harmful traffic', async () => {
    const enoughMs = promisedMs + 2000
    await waitFor(() => performance.now() - startedMs > enoughMs, { timeoutMs: 2 * enoughMs })
    await watch.call('look')
    for (const { name } of usual) expect(await alertsOf(name), name).to.deep.equal([])
  })

  it('is prevented at port 25, except for guests that are allowed to send mail', async () => {
    const guest = guests.get('a slow scan')!
    const reaches = (): boolean[] =>
      lab.probe(lab.namespaceOf(guest), ['tcp,198.19.4.4,25', `tcp,${clientAddress6},25`, 'tcp,198.19.3.3,21'])
    await eventually(() => expect(reaches()).to.deep.equal([false, false, true]))
    await network.call('attach', { ...guest, sendsMail: true })
    await eventually(() => expect(reaches()).to.deep.equal([true, true, true]))
    await network.call('attach', guest)
    await eventually(() => expect(reaches()).to.deep.equal([false, false, true]))
  })

  it('is recorded in the connection log of the guest', async () => {
    const guest = guests.get('a scan by refused IPv6 connections')!
    const { rows } = (await watch.call('logs', guest.uuid)) as AbuseLogs
    expect(rows.some(({ outcome, target }) => outcome === 'refused' && target === refusing6)).to.equal(true)
  })

  it('is detected again after another program deleted the detection rules', async () => {
    lab.in(lab.host, 'nft', 'delete', 'table', 'inet', 'berth_watch')
    await watch.call('look')
    expect(lab.in(lab.host, 'nft', 'list', 'table', 'inet', 'berth_watch')).to.contain('chain opening')
  })

  it('is not detected while detection is disabled, and the rules for detection are removed', async () => {
    const tables = (): string => lab.in(lab.host, 'nft', 'list', 'tables')
    expect(tables()).to.contain('table inet berth_watch')
    await watch.end()
    watch = lab.abuseWatch({ enabled: false })
    for (let start = 0; start < 2; start++) {
      await watch.call('start', { guests: [], mailServers: [] })
      expect(tables()).not.to.contain('berth_watch')
      expect(tables()).to.contain('table inet berth')
    }
  })
})
