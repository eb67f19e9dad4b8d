import { loadavg } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { median } from './figures.js'
import { FleetLab } from './fleet-lab.js'
import { load, type Load } from './wrk.js'

const seconds = 5
const guestsPerHost = 1000
/** Number of changes per second on each host. Each change concerns one guest. */
const changesPerSecond = 2
const hostRounds = 5
const hostSeconds = 2
const restarts = 3
/** Pause in ms between two restarts, so that the gateway can write all data that it has to store. */
const restMs = 3000

/**
 * Measures the cost of reads with a growing number of guests. Each host has 1,000 simulated guests with live metrics
 * and changes. The gateway and bare Koa take turns in sending the same bytes.
 */
export async function benchFleet(hostCounts: readonly number[] = [1, 20, 100]): Promise<void> {
  for (const hosts of hostCounts) {
    const lab = await FleetLab.start(hosts, guestsPerHost, changesPerSecond)
    try {
      console.log(`\n### A fleet of ${hosts} x ${guestsPerHost} guests\n`)
      await benchReads(lab)
      await benchHosts(lab, hosts)
      await benchUnderLoad(lab)
      await benchCreations(lab, hosts)
      const { now, peak } = lab.memory()
      console.log(`\ngateway: resident memory ${now.toFixed(0)} MB, at most ${peak.toFixed(0)} MB`)
      await benchRestart(lab)
    } finally {
      await lab.close()
    }
  }
}

function readsOf(guests: number): Record<string, string> {
  const page = (n: number, rest = ''): string => `/containers?page=${n}&page_size=50${rest}`
  return {
    'page of 50, first': page(1),
    'page of 50, last': page(guests / 50),
    'page of 50, sorted by name, last': page(guests / 50, '&sort=name'),
    'page of 50, sorted by -ram_mb,-created_at, first': page(1, '&sort=-ram_mb,-created_at'),
    'page of 50, status=stopped, last': page(Math.floor(guests / 250), '&status=stopped'),
    'page of 50, template=debian-12 by -vcpu': page(2, '&template=debian-12&sort=-vcpu'),
    'compact page of 50': `/containers/list?page=${guests / 100}&page_size=50`,
    dashboard: '/dashboard',
    'one container': `/containers/sim-${guests / 2}`,
    hosts: '/hosts',
    'tasks, page of 50': '/tasks?page=1&page_size=50',
  }
}

async function benchReads(lab: FleetLab): Promise<void> {
  console.log('| 16 connections | Berth | processor | p50 | p99 | other than 2xx | bare Koa | p99 | Berth / bare Koa |')
  console.log('|---|---|---|---|---|---|---|---|---|')
  for (const [name, path] of Object.entries(readsOf(lab.guests))) {
    const koa = await lab.mirror(name.replaceAll(/\W+/g, '-'), path)
    const before = lab.processorMs()
    const own = await load(lab.url + path, { key: lab.key, connections: 16, seconds })
    const microseconds = ((lab.processorMs() - before) * 1000) / (own.perSecond * seconds)
    const bare = await load(koa, { key: lab.key, connections: 16, seconds })
    const cells = [
      rate(own),
      `${microseconds.toFixed(0)} µs`,
      ms(own.p50Ms),
      ms(own.p99Ms),
      own.failed,
      rate(bare),
      ms(bare.p99Ms),
    ]
    console.log(`| ${name} | ${cells.join(' | ')} | ${(own.perSecond / bare.perSecond).toFixed(2)} |`)
  }
}

/** Compares the list of all hosts with a page of guests, in turns. In these long lists, only few rows change. */
async function benchHosts(lab: FleetLab, hosts: number): Promise<void> {
  const spent = { hosts: [] as number[], guests: [] as number[] }
  for (let round = 0; round < hostRounds; round++) {
    spent.hosts.push(await processorTimeOf(lab, '/hosts'))
    spent.guests.push(await processorTimeOf(lab, '/containers?page=1&page_size=50'))
  }
  const [own, page] = [median(spent.hosts), median(spent.guests)]
  console.log(
    `\nlist of ${hosts} hosts: ${own.toFixed(0)} µs of processor time, ${(own / page).toFixed(2)} times a page of 50 guests`,
  )
}

/** Returns the CPU time of the gateway for one request, in µs. */
async function processorTimeOf(lab: FleetLab, path: string): Promise<number> {
  const before = lab.processorMs()
  const { perSecond } = await load(lab.url + path, { key: lab.key, connections: 16, seconds: hostSeconds })
  return ((lab.processorMs() - before) * 1000) / (perSecond * hostSeconds)
}

async function benchUnderLoad(lab: FleetLab): Promise<void> {
  const path = '/containers'
  const koa = await lab.mirror('list', path)
  const alone = await load(lab.url + path, { key: lab.key, connections: 1, seconds })
  const bare = await load(koa, { key: lab.key, connections: 1, seconds })
  console.log(
    `\nwhole list, one client, changes all the while: ${rate(alone)} (p50 ${ms(alone.p50Ms)}, p99 ${ms(alone.p99Ms)}); bare Koa ${rate(bare)}`,
  )
  const detail = `${lab.url}/containers/sim-${lab.guests / 2}`
  const [lists, details] = await Promise.all([
    load(lab.url + path, { key: lab.key, connections: 4, seconds: 2 * seconds }),
    load(detail, { key: lab.key, connections: 4, seconds: 2 * seconds }),
  ])
  console.log(
    `4 clients with the whole list: ${rate(lists)}, ${lists.failed} failed; meanwhile one container: p50 ${ms(details.p50Ms)}, p99 ${ms(details.p99Ms)}, ${details.failed} failed`,
  )
}

async function benchCreations(lab: FleetLab, hosts: number): Promise<void> {
  const body = { virtualization: 'lxc', template_id: 'debian-12', vcpu: 1, ram_mb: 256, disk_gb: 2 }
  const begun = performance.now()
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, n) =>
      lab.gateway.request('POST', '/containers', { body: { ...body, name: `new-${n}` } }),
    ),
  )
  const tookMs = performance.now() - begun
  const made = answers.filter(({ status }) => status === 202)
  const perHost = new Map<string, number>()
  for (let n = 0; n < 100; n++) {
    const { body: answer } = await lab.gateway.request('GET', `/containers/new-${n}`)
    const id = answer.data?.host_id as string
    perHost.set(id, (perHost.get(id) ?? 0) + 1)
  }
  const counts = [...perHost.values()]
  console.log(
    `100 creations at once: ${ms(tookMs)}, ${made.length} accepted, ${Math.min(...counts)} to ${Math.max(...counts)} each on ${perHost.size} of ${hosts} hosts`,
  )
}

/** Measures the time from the start of a gateway that was killed until it shows all guests of all hosts. */
async function benchRestart(lab: FleetLab): Promise<void> {
  const [times, processor]: [number[], number[]] = [[], []]
  for (let round = 0; round < restarts; round++) {
    await lab.gateway.kill('SIGKILL')
    const begun = performance.now()
    lab.gateway.start()
    await lab.complete(20)
    times.push(performance.now() - begun)
    processor.push(lab.processorMs())
    await delay(restMs)
  }
  console.log(
    `after kill -9 the whole view again in ${ms(median(times))}, ${ms(median(processor))} of processor time (load average ${loadavg()[0]!.toFixed(1)})`,
  )
}

const rate = ({ perSecond }: Load): string => `${perSecond.toFixed(perSecond < 100 ? 1 : 0)} /s`
const ms = (value: number): string => `${value.toFixed(value < 10 ? 2 : 0)} ms`
