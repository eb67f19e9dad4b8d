import { seededGuests, type FailoverLab } from './failover-lab.js'
import type { Findings } from './findings.js'
import type { VisibilityProbe } from './visibility-probe.js'
import { codeOf, type Writes } from './writes.js'

interface WrittenGuest {
  readonly name: string
  /** Last acknowledged expiry. "": none. */
  expiry: string
  isBusy: boolean
}

/** Sets the expiry of guests that exist from the beginning. Each guest has one writer at a time. */
export class SettingWriters {
  readonly guests: readonly WrittenGuest[]
  #count = 0

  constructor(
    private readonly lab: FailoverLab,
    private readonly writes: Writes,
    private readonly findings: Findings,
    private readonly probe: VisibilityProbe,
  ) {
    const count = lab.hosts.filter(({ real }) => real === undefined).length * seededGuests
    this.guests = Array.from({ length: count }, (_, index) => ({ name: `sim-${index + 1}`, expiry: '', isBusy: false }))
  }

  /** Changes the expiry of the next guest. Does nothing if an earlier write to this guest has no result yet. */
  async write(): Promise<void> {
    const number = this.#count++
    const guest = this.guests[number % this.guests.length]!
    if (guest.isBusy) return
    guest.isBusy = true
    await this.#write(guest, expiryOf(number))
    guest.isBusy = false
  }

  async #write(guest: WrittenGuest, expiry: string): Promise<void> {
    const former = guest.expiry
    const path = `/containers/${guest.name}`
    const request = { body: { expires_at: expiry } }
    const { outcome, reply } = await this.writes.make(() => this.lab.client.send('PUT', `${path}/expiry`, request))
    if (outcome !== 'acknowledged')
      return void this.findings.unexpected.push(`expiry of ${guest.name}: ${outcome}, ${reply.status} ${codeOf(reply)}`)
    guest.expiry = expiry
    if (!this.probe.isFree) return
    await this.probe.run({
      what: `expiry ${expiry} of ${guest.name} (before: ${former})`,
      read: ({ client }) => client.send('GET', path),
      judge: ({ status, body }) => (status !== 200 ? undefined : body.data.expires_at === expiry ? 'new' : 'old'),
      isGuest: true,
    })
  }
}

/** Returns a different time for each number below three million. */
function expiryOf(number: number): string {
  const two = (value: number): string => String(value).padStart(2, '0')
  const [minute, hour] = [number % 60, Math.floor(number / 60) % 24]
  const [day, year] = [1 + (Math.floor(number / 1440) % 28), 2040 + Math.floor(number / 40_320)]
  return `${year}-01-${two(day)} ${two(hour)}:${two(minute)}:00`
}
