import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process, { argv } from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import type { AlertRecord } from '../../agent/abuse/alert-store.js'
import { begin, guestsOf, honest, makeServers, onlyOurPool, silenceHalf } from '../support/attacks/abuse-cases.js'
import { NetworkLab } from '../support/network/network-lab.js'

/*
 * Runs busy but harmless guests for some minutes and prints every alert. No alert is expected.
 * node --import tsx test/bench/abuse-honest-main.ts MINUTES [PART OF A NAME]
 */

const seconds = Number(argv[2] ?? '10') * 60
const lab = new NetworkLab('btestbench')
const directory = mkdtempSync(join(tmpdir(), 'btestbench-abuse-'))
try {
  lab.build()
  silenceHalf(lab)
  const cases = honest(seconds).filter(({ name }) => name.includes(argv[3] ?? ''))
  const guests = guestsOf(lab, cases)
  const network = lab.agent()
  await network.ensure([...guests.values()])
  for (const guest of guests.values()) lab.plug(guest)
  makeServers(lab, directory)
  const watch = lab.abuseWatch({ close_smtp: false, ...onlyOurPool })
  const mailServers = [guests.get('mail of a mail server')?.uuid ?? []].flat()
  await watch.call('start', { guests: [...guests.values()], mailServers })
  await delay(1000)
  begin(lab, cases, { guests, directory })
  const begun = (await watch.call('cpu')) as NodeJS.CpuUsage
  await delay(seconds * 1000)
  for (const { name } of cases) {
    const counted = '/sys/class/net/eth0/statistics/tx_packets'
    const sent = Number(lab.in(lab.namespaceOf(guests.get(name)!), 'cat', counted))
    console.log(`${name}: ${Math.round(sent / seconds)} packets a second`)
  }
  const { user, system } = (await watch.call('cpu')) as NodeJS.CpuUsage
  const percent = (user - begun.user + system - begun.system) / 10_000 / seconds
  console.log(`the watch, without its child processes: ${percent.toFixed(1)} % of a processor`)
  const alerts = (await watch.call('alerts')) as AlertRecord[]
  const nameOf = ({ guestUuid }: AlertRecord): string =>
    [...guests].find(([, { uuid }]) => uuid === guestUuid)?.[0] ?? guestUuid
  for (const alert of alerts) console.log(`${nameOf(alert)}: ${alert.severity} ${alert.type}, ${alert.detail}`)
  console.log(`${cases.length} workloads, ${seconds} s, ${alerts.length} alerts`)
  process.exitCode = alerts.length === 0 ? 0 : 1
} finally {
  lab.remove()
  rmSync(directory, { recursive: true, force: true })
}
process.exit()
