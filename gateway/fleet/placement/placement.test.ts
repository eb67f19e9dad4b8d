import { expect } from 'chai'
import { pino } from 'pino'
import { Guest, GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import { HostDescription } from '../../../proto/gen/berth/agent/v1/host.js'
import { Template } from '../../../proto/gen/berth/agent/v1/image.js'
import { BerthError, conflict } from '../../../shared/errors.js'
import { FleetState } from '../view.js'
import { Placement } from './placement.js'
import type { ReservedRoom, ReservedRooms, RoomChanges } from './plan-rooms.js'
import type { RoomStore } from './room-store.js'

const limits = { vcpuMilli: 1000, ramMb: 512, diskGb: 10 }
const [u, x, y] = [1, 2, 3].map((n) => `00000000-0000-4000-8000-00000000000${n}`) as [string, string, string]
const guest = Guest.fromPartial({ uuid: u, virtualization: 'lxc', limits })
const spec = GuestSpec.fromPartial({ virtualization: 'lxc', templateId: 'debian-12', limits })
const on = (hostId: string, uuid?: string): ReservedRoom => ({
  hostId,
  limits,
  untilMs: Infinity,
  ...(uuid !== undefined && { uuid }),
})

/** Two hosts with resources for two guests each, and reservations in memory instead of in a store. */
describe('the placement of guests with reserved resources', () => {
  let stored: Map<string, ReservedRoom>
  let view: FleetState
  let placement: Placement
  beforeEach(() => {
    stored = new Map()
    view = new FleetState()
    for (const id of ['a', 'b']) addHost(id)
    const rooms = {
      list: async () => stored,
      change: async <T>(plan: (now: ReservedRooms) => { changes: RoomChanges; result: T }) => {
        const { changes, result } = plan(stored)
        for (const [id, room] of changes)
          if (room) stored.set(id, room)
          else stored.delete(id)
        return result
      },
    }
    const options = { view, rooms: rooms as unknown as RoomStore, log: pino({ level: 'silent' }) }
    const ports = { choose: ([hostId]: readonly string[]) => (hostId === undefined ? undefined : { hostId }) }
    placement = new Placement({ ...options, ports, ratios: { cpu: 1, ram: 1, disk: 1 } })
  })

  function addHost(id: string): void {
    const times = { createdAtMs: 0, certificateNotAfterMs: 0 }
    const host = view.setHost({ id, version: 1, name: id, address: `${id}:1`, draining: false, serials: [], ...times })
    view.setOnline(host, true)
    host.description = HostDescription.fromPartial({
      features: ['move', 'placement', 'undelete'],
      capabilities: { lxc: true },
      capacity: { cpuCores: 2, ramTotalMb: 1024, diskTotalGb: 20 },
    })
    const template = Template.fromPartial({ id: 'debian-12' })
    host.templates.set(template.id, { hostId: id, template })
  }

  const show = (hostId: string, uuid: string, more: Partial<Guest> = {}): void => {
    const id = view.countGuests().total + 1
    const value = Guest.fromPartial({ ...guest, ...more, uuid, id, name: `guest${id}` })
    view.apply(view.findState(hostId)!, { $case: 'guest', value })
  }
  const placeNew = (operationId = 'new', hostId?: string): string | undefined =>
    placement.placeNew({ operationId, spec, ...(hostId !== undefined && { hostId }) }, stored)?.hostId
  const codeOf = async (work: () => unknown): Promise<unknown> => {
    try {
      return await work()
    } catch (error) {
      return (error as BerthError).code
    }
  }
  const moveTo = (toHostId?: string): Promise<unknown> =>
    codeOf(() => placement.reserveTarget('m', { hostId: 'a', guest }, { toHostId }))

  it('prefers the host with fewer reservations', () => {
    stored.set('o', on('a'))
    expect(placeNew()).to.equal('b')
  })

  it('refuses a new guest if all free resources of the host are reserved', async () => {
    stored.set('o', on('a')).set('m', on('a', 'moving'))
    expect(await codeOf(() => placeNew('new', 'a'))).to.equal('resource_exhausted')
  })

  it('does not count the reservation of a guest that its host already reports', () => {
    stored.set('o', on('a', u))
    show('a', u)
    expect(placeNew('new', 'a')).to.equal('a')
  })

  it('uses the host that has a reservation for the same operation', () => {
    stored.set('new', on('b')).set('o', on('b'))
    expect(placeNew()).to.equal('b')
  })

  it('places a guest on another host if the reserved host refused it, or nowhere if all hosts refused it', () => {
    stored.set('new', on('b'))
    const refused = new Set(['b'])
    const place = (): string | undefined =>
      placement.placeNew({ operationId: 'new', spec }, stored, (id) => refused.has(id))?.hostId
    expect(place()).to.equal('a')
    refused.add('a')
    expect(place()).to.equal(undefined)
  })

  it('reserves resources either for all guests of a batch or for none', async () => {
    const batch = (count: number) => Array.from({ length: count }, (_, n) => ({ operationId: `o${n}`, spec }))
    const attempt = (_at: number, place: () => void): void => place()
    expect(await codeOf(() => placement.hold(batch(5), attempt))).to.equal('resource_exhausted')
    expect(stored.size).to.equal(0)
    await placement.hold(batch(4), attempt)
    expect([...stored.values()].map(({ hostId }) => hostId)).to.deep.equal(['a', 'b', 'a', 'b'])
    await placement.release(['o0', 'o3'])
    expect([...stored.keys()]).to.deep.equal(['o1', 'o2'])
  })

  it('accepts a host as the target of a move if it has enough unreserved resources', async () => {
    stored.set('o', on('b'))
    expect(await moveTo('b')).to.equal('b')
    expect(stored.get('m')).to.include({ hostId: 'b', uuid: u })
  })

  it('refuses to move a guest to a host without unreserved resources', async () => {
    stored.set('o', on('b')).set('p', on('b'))
    expect(await moveTo('b')).to.equal('resource_exhausted')
    expect(await codeOf(() => placement.findTarget({ hostId: 'a', guest }))).to.equal('resource_exhausted')
  })

  it('finds a target for a move without reserving resources', async () => {
    expect(await placement.findTarget({ hostId: 'a', guest })).to.equal('b')
    expect(stored.size).to.equal(0)
  })

  it('chooses a host for the restore of a backup only if its agent can create guests from backups', async () => {
    const restore = (): Promise<unknown> =>
      codeOf(() => placement.reserveTarget('r', { hostId: 'a', guest }, { isFromBackup: true }))
    expect(await restore()).to.equal('agent_outdated')
    addHost('c')
    view.findState('c')!.description!.features.push('create-from-backup')
    expect(await restore()).to.equal('c')
    expect(
      await placement.planTargets([{ hostId: 'a', guest }], () => undefined, { isFromBackup: true }),
    ).to.deep.equal(['c'])
  })

  describe('with placement rules', () => {
    const rules = { group: '', labels: [], spread: '', together: 'app' }
    const partner = Guest.fromPartial({ ...guest, placement: rules })
    const named = (uuid: string) => ({ hostId: 'a', guest: { ...partner, uuid } })

    it('ignores deleted guests', async () => {
      const deletion = { sinceMs: 1, untilMs: 2 }
      const spread = { ...rules, spread: 'web', together: '' }
      show('b', x, { placement: spread, deletion })
      await placement.reserveTarget('m', { hostId: 'a', guest: { ...guest, placement: spread, deletion } })
      expect(stored.get('m')).not.to.have.property('rules')
      show('a', y, { placement: spread })
      expect(
        placement.placeNew({ operationId: 'new', spec: { ...spec, placement: spread } }, new Map())?.hostId,
      ).to.equal('b')
    })

    it('lets a guest follow another guest of its “together” group that is already moving', async () => {
      show('a', x, { placement: rules })
      show('a', y, { placement: rules })
      for (const uuid of [x, y])
        expect(await placement.reserveTarget(uuid, named(uuid), { alsoMoving: [x, y] })).to.equal('b')
    })

    it('plans no move of a guest if another guest of its “together” group cannot move', async () => {
      show('a', x, { placement: rules })
      show('a', y, { placement: rules })
      const refuse = ({ guest: { uuid } }: { guest: Guest }): void => {
        if (uuid === y) throw conflict('offline_required', 'it runs')
      }
      const targets = await placement.planTargets([named(x), named(y)], refuse)
      expect(targets.map((target) => (target as BerthError).code)).to.deep.equal([
        'placement_together',
        'offline_required',
      ])
    })
  })

  it('removes expired reservations', async () => {
    stored.set('o', { ...on('a'), untilMs: 1 }).set('p', on('a'))
    await placement.clean()
    expect([...stored.keys()]).to.deep.equal(['p'])
  })
})
