import { expect } from 'chai'
import { pino } from 'pino'
import { conflict } from '../../../shared/errors.js'
import type { GuestView } from '../contract.js'
import { StandbyKeeper, type StandbyKeeperOptions } from './standby-keeper.js'
import type { StoredStandby } from './standby-store.js'

const settings = { intervalMinutes: 1, bandwidthMbps: 0, takenAtMs: 0, sentBytes: 0, triedAtMs: 0, failures: 0 }

const storedOf = (uuid: string, hostId = 'b'): StoredStandby => ({
  standbyId: `s-${uuid}`,
  hostId,
  fromHostId: 'a',
  intervalMinutes: 1,
  bandwidthMbps: 0,
})

const hostOf = (id: string) => ({ record: { id }, online: true, guests: new Map(), conflicts: new Map() })

/** A keeper whose hosts refuse all copies. It reports each refusal to the guest's host, which records it. */
class Lab {
  guests: GuestView[] = []
  readonly stored = new Map<string, StoredStandby>()
  readonly relocating: { uuid: string }[] = []
  readonly ordered: string[] = []
  readonly hosts = new Map(['a', 'b'].map((id) => [id, hostOf(id)] as const))
  readonly registered = new Set<string>()
  copies: object[] = []
  readonly removed: string[] = []
  /** Results of the next attempts to set the standbys of moved guests again. */
  restores: boolean[] = []
  readonly #keeper: StandbyKeeper

  constructor() {
    const syncStandby = async ({ uuid, refusal }: { uuid: string; refusal: string }) =>
      void this.ordered.push(refusal.includes('interrupted') ? `${uuid} unknown` : uuid)
    const options = {
      store: { transact: async () => ({ epoch: 1 }) },
      view: {
        guests: () => this.guests,
        findGuest: (uuid: string) => this.guests.find(({ guest }) => guest.uuid === uuid),
        findHost: () => ({}),
        findState: (id: string) => this.hosts.get(id),
        states: () => [...this.hosts.values()],
      },
      registry: { findGone: async (uuids: string[]) => uuids.filter((uuid) => !this.registered.has(uuid)) },
      standbys: {
        agent: () => ({ moves: { syncStandby } }),
        listCopies: async (hostId: string) => (hostId === 'b' ? this.copies : []),
        forget: async (uuid: string) => void this.removed.push(uuid),
        expect: async () => Promise.reject(conflict('invalid_state', 'the host has the container')),
      },
      standbyStore: { list: async () => this.stored, replace: async (uuid: string) => this.stored.delete(uuid) },
      moved: { restoreAll: async () => this.restores.shift() ?? false },
      moves: { list: async () => this.relocating },
      evacuations: { list: async () => [] },
      log: pino({ level: 'silent' }),
    }
    this.#keeper = new StandbyKeeper(options as unknown as StandbyKeeperOptions)
  }

  show(uuid: string, change: object = {}): void {
    const standby = { ...settings, standbyId: `s-${uuid}`, hostId: 'b', ...change }
    const guest = { uuid, virtualization: 'lxc', status: 'running', standby }
    const others = this.guests.filter((one) => one.guest.uuid !== uuid)
    this.guests = [...others, { hostId: 'a', online: true, guest } as unknown as GuestView]
  }

  /** Shows a guest whose standby an administrator has set. */
  set(uuid: string, change: object = {}): void {
    this.show(uuid, change)
    this.stored.set(uuid, storedOf(uuid))
  }

  /** Lets the host `b` have the copy of a guest. */
  copy(uuid: string): void {
    this.copies.push({ uuid, standbyId: `s-${uuid}`, fromHostId: 'a', complete: true })
  }

  /** @returns the guests whose copies were removed */
  async tidy(): Promise<string[]> {
    this.removed.length = 0
    await this.#keeper.work(true)
    return this.removed
  }

  /** @returns the guests whose increments one round orders */
  async work(): Promise<string[]> {
    this.ordered.length = 0
    await this.#keeper.work()
    return this.ordered.toSorted()
  }
}

describe('the keeper of standbys', () => {
  it('orders increments only of standbys that an administrator has set', async () => {
    const lab = new Lab()
    lab.set('u1')
    lab.show('invented')
    lab.set('other', { standbyId: 's-new' })
    expect(await lab.work()).to.deep.equal(['u1'])
  })

  it('reports a standby that the store lacks for two rounds as failed', async () => {
    const lab = new Lab()
    lab.show('u1')
    lab.copy('u1')
    expect(await lab.work()).to.deep.equal([])
    lab.set('u1') // the gateway that sets the standby has written it now
    expect(await lab.work()).to.deep.equal(['u1'])
    lab.show('u2')
    expect(await lab.work()).to.deep.equal([])
    expect(await lab.work()).to.deep.equal(['u2 unknown'])
    expect(await lab.tidy(), 'the copy stays').to.deep.equal([])
  })

  it('waits while a guest moves', async () => {
    const lab = new Lab()
    lab.set('u1')
    lab.relocating.push({ uuid: 'u1' })
    expect(await lab.work()).to.deep.equal([])
    lab.relocating.pop()
    expect(await lab.work()).to.deep.equal(['u1'])
  })

  it('orders at most two increments at a time for each host', async () => {
    const lab = new Lab()
    for (const uuid of ['u1', 'u2', 'u3']) lab.set(uuid)
    lab.set('elsewhere', { hostId: 'c' })
    lab.stored.set('elsewhere', storedOf('elsewhere', 'c'))
    expect(await lab.work()).to.deep.equal(['elsewhere', 'u1', 'u2'])
    expect(await lab.work()).to.deep.equal([])
    lab.set('u1', { triedAtMs: 5, takenAtMs: 4 })
    expect(await lab.work()).to.deep.equal(['u3'])
  })

  it('waits for an interval after a result, even if the clock of the host is wrong', async () => {
    const lab = new Lab()
    lab.set('u1')
    await lab.work()
    lab.set('u1', { triedAtMs: 5, takenAtMs: 4 }) // in 1970
    expect(await lab.work()).to.deep.equal([])
  })

  it('removes the copy and the record of a guest that was certainly deleted', async () => {
    const lab = new Lab()
    lab.set('u1')
    lab.guests = []
    lab.copy('u1')
    expect(await lab.tidy()).to.deep.equal(['u1'])
    expect([...lab.stored.keys()]).to.deep.equal([])
  })

  for (const [name, change] of [
    ['its host was removed by force', (lab: Lab) => void lab.hosts.delete('a')],
    ['its host is offline', (lab: Lab) => void (lab.hosts.get('a')!.online = false)],
    ['the store knows the guest', (lab: Lab) => void lab.registered.add('u1')],
    ['its host reports the guest', (lab: Lab) => void lab.hosts.get('a')!.guests.set('u1', { guest: {} })],
  ] as const)
    it(`keeps the copy and the record of a guest that is not shown if ${name}`, async () => {
      const lab = new Lab()
      lab.set('u1')
      lab.guests = []
      lab.copy('u1')
      change(lab)
      expect(await lab.tidy()).to.deep.equal([])
      expect([...lab.stored.keys()]).to.deep.equal(['u1'])
    })

  it('removes the old copy of a guest that has moved, and keeps the record', async () => {
    const lab = new Lab()
    lab.set('u1', { hostId: 'c' })
    const [moved] = lab.guests
    lab.guests = [{ ...moved!, hostId: 'c', guest: { ...moved!.guest, standby: undefined } }]
    lab.registered.add('u1')
    lab.copy('u1')
    expect(await lab.tidy()).to.deep.equal(['u1'])
    expect([...lab.stored.keys()]).to.deep.equal(['u1'])
  })

  it('sets the standbys of moved guests at its start, and again soon if one must wait', async () => {
    const lab = new Lab()
    lab.restores = [true, true, false, true]
    for (let round = 0; round < 5; round++) await lab.work()
    expect(lab.restores, 'not after the third round').to.deep.equal([true])
  })
})
