import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { GuestNetwork } from '../../agent/network/contract.js'
import { silenceHalf } from '../support/attacks/abuse-cases.js'
import { guestPrefix6, NetworkLab, type AgentNetwork } from '../support/network/network-lab.js'
import { figure, type Figure } from './figures.js'
import { processorPercent } from './idle.js'

const workloads = fileURLToPath(new URL('../support/attacks/workloads.py', import.meta.url))
const measureMs = 60_000
/** Number of guests that request web pages. The abuse watch can sample all of them. */
const busy = 10
/** Number of attacking guests. Each sends more packets of each kind than the abuse watch may sample (plan-watch-table.ts). */
const wild = 65
const mostSampled = 3000

/**
 * Measures the CPU time of the abuse watch, first under usual load: some guests request web pages, and one flow in a
 * hundred is unanswered. Then guests attack so much that the sampling limit is reached.
 */
export async function benchAbuse({ guests, flows }: { guests: number; flows: number }): Promise<Figure[]> {
  const lab = new NetworkLab('btestbench', { subnet: '10.77.0.0/16' })
  try {
    lab.build()
    silenceHalf(lab)
    const all = Array.from({ length: guests }, (_, index) => guestOf(lab, index))
    const network = lab.agent()
    await network.ensure(all)
    // Port 25 (mail) stays open, so that the abuse watch samples packets to it.
    const watch = lab.abuseWatch({ close_smtp: false })
    await watch.call('start', { guests: all, mailServers: [] })
    const addresses = all.map(({ ipv4 }) => ipv4)
    feed(lab, ['nft', '-f'], countersOf(addresses))
    feed(lab, ['conntrack', '-R'], flowsOf(addresses, flows))
    const tracked = Number(lab.in(lab.host, 'conntrack', '-C'))
    if (tracked < flows) throw new Error(`${tracked} of ${flows} flows`)
    for (const guest of all.slice(0, busy + wild)) lab.plug(guest)
    const name = `watch for abuse, ${guests} guests, ${flows} flows`
    beBusy(lab, all.slice(0, busy))
    const usual = await measure(watch, name)
    beWild(lab, all.slice(busy, busy + wild))
    return [...usual, ...(await measure(watch, `${name}, ${wild} of them wild`))]
  } finally {
    lab.remove()
  }
}

/** Describes a guest. The guests with activity also have an IPv6 address. */
function guestOf(lab: NetworkLab, index: number): GuestNetwork {
  const ipv6Addresses = index < busy + wild ? [`${guestPrefix6}${(index + 16).toString(16)}`] : []
  return lab.guest(index + 11, [], { ipv6Addresses, sendsMail: true })
}

function beBusy(lab: NetworkLab, guests: readonly GuestNetwork[]): void {
  lab.run(lab.client, '/usr/bin/python3', workloads, 'web', '80')
  const seconds = String((2 * measureMs) / 1000 + 60)
  for (const guest of guests) {
    const args = ['crawl', '198.19.6', '200', '198.19.6', '12', seconds]
    lab.run(lab.namespaceOf(guest), '/usr/bin/python3', workloads, ...args)
  }
}

function beWild(lab: NetworkLab, guests: readonly GuestNetwork[]): void {
  const seconds = String(measureMs / 1000 + 20)
  for (const [index, guest] of guests.entries()) {
    const hosts = [`198.19.7.${index + 1}`, `2001:db8:99::${index + 1}`]
    lab.run(lab.namespaceOf(guest), '/usr/bin/python3', workloads, 'saturate', '11', seconds, ...hosts)
  }
}

async function measure(watch: AgentNetwork, name: string): Promise<Figure[]> {
  const seen = async (): Promise<number> => ((await watch.call('packets')) as { seen: number }).seen
  const before = await seen()
  const percent = await processorPercent(watch.child.pid!, measureMs)
  const perSecond = ((await seen()) - before) / (measureMs / 1000)
  return [
    figure(`${name}: processor`, '% of one', { Berth: percent }),
    figure(`packets inspected per second, at most ${mostSampled}`, '', { Berth: perSecond }),
  ]
}

/** Runs a program in the host's namespace with a text as its input file. */
function feed(lab: NetworkLab, [program, option]: readonly [string, string], text: string): void {
  const directory = mkdtempSync('/var/tmp/btestbench-abuse-')
  try {
    const file = join(directory, 'input')
    writeFileSync(file, text)
    lab.in(lab.host, program, option, file)
  } finally {
    rmSync(directory, { recursive: true })
  }
}

function countersOf(addresses: readonly string[]): string {
  const elements = addresses.map((address) => `${address} counter packets 5 bytes 300`).join(', ')
  return ['opened', 'accepted', 'refused', 'unreachable', 'mail']
    .map((set) => `add element inet berth_watch ${set} { ${elements} }\n`)
    .join('')
}

/** Returns the input of conntrack(8), with a line for each connection. Every hundredth connection has no answer. */
function flowsOf(addresses: readonly string[], count: number): string {
  return Array.from({ length: count }, (_, index) => {
    const source = addresses[index % addresses.length]
    const target = `203.0.${(index >> 8) & 255}.${index & 255}`
    const tuple = `-p tcp --src ${source} --dst ${target} --sport ${1024 + (index % 60_000)} --dport 443`
    const state = index % 100 === 0 ? '--state SYN_SENT' : '--state ESTABLISHED -u ASSURED,SEEN_REPLY'
    return `-I -t 3600 ${tuple} ${state}\n`
  }).join('')
}
