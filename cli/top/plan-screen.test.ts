import { expect } from 'chai'
import { sizeText } from '../output/sizes.js'
import { planScreen, planTables } from './plan-screen.js'
import { withEvent, type FleetUsage } from './usage.js'

const host = (host_id: string, cpu_usage_pct: number | null) => ({
  host_id,
  cpu_usage_pct,
  ram_used_mb: cpu_usage_pct === null ? null : 512,
  ram_total_mb: 2048,
  disk_used_gb: cpu_usage_pct === null ? null : 5,
  disk_total_gb: 100,
})
const guest = (id: number, cpu_usage_pct: number | null) => ({
  id,
  name: `web${id}`,
  cpu_usage_pct,
  memory_usage_bytes: 1.5 * 2 ** 30,
  disk_usage_bytes: 2 ** 20,
  traffic_used_bytes: null,
})
const usage: FleetUsage = {
  hosts: [host('h1', null), host('h2', 12.34)],
  states: [
    { id: 'h1', name: 'host-a', status: 'offline', containers: 1 },
    { id: 'h2', name: 'host-b', status: 'online', containers: 2 },
  ],
  guests: [guest(1, 0), guest(2, null), guest(3, 99.5)],
}

const hostTable = [
  'HOST    STATUS   CPU %  MEMORY   MEMORY %  DISK     DISK %  GUESTS',
  'host-b  online   12.3   512 MiB  25.0      5.0 GiB  5.0     2',
  'host-a  offline  -      -        -         -        -       1',
]
const guestTable = [
  'ID  GUEST  CPU %  MEMORY   DISK     TRAFFIC',
  '3   web3   99.5   1.5 GiB  1.0 MiB  -',
  '1   web1   0.0    1.5 GiB  1.0 MiB  -',
  '2   web2   -      1.5 GiB  1.0 MiB  -',
]

describe('berth top', () => {
  it('shows hosts and guests, sorted by processor usage', () =>
    expect(planTables(usage, undefined)).to.equal([...hostTable, '', ...guestTable, ''].join('\n')))

  it('shows only guests if the API key lacks the scope for hosts', () =>
    expect(planTables({ ...usage, hosts: undefined, states: undefined }, undefined)).to.equal(
      [...guestTable, ''].join('\n'),
    ))

  it('cuts the screen to the size of the terminal', () => {
    const lines = planScreen(usage, { width: 40, height: 7, title: 'https://panel.example', note: '12:00:00' })
    expect(lines[0]).to.equal('Berth https://panel.example  12:00:00  …')
    expect(lines).to.have.length(7)
    expect(Math.max(...lines.map((line) => line.length))).to.be.at.most(40)
  })

  it('takes the usage of a host from an event', () => {
    const fresh = withEvent(usage, 'usage.host', { host_id: 'h1', cpu_usage_pct: 50, ram_used_mb: 1024 })
    expect(fresh.hosts?.[0]).to.include({ host_id: 'h1', cpu_usage_pct: 50, ram_used_mb: 1024, ram_total_mb: 2048 })
    expect(withEvent(usage, 'task.done', {})).to.equal(usage)
  })

  for (const [bytes, text] of [
    [0, '0 B'],
    [1023, '1023 B'],
    [1536, '1.5 KiB'],
    [20 * 2 ** 30, '20 GiB'],
    [2 ** 65, '32768 PiB'],
  ] as const)
    it(`shows ${bytes} bytes as ${text}`, () => expect(sizeText(bytes)).to.equal(text))
})
