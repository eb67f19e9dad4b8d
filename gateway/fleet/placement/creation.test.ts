import { expect } from 'chai'
import { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { HostDescription } from '../../../proto/gen/berth/agent/v1/host.js'
import { BerthError } from '../../../shared/errors.js'
import { FleetState } from '../view.js'
import { GuestCreator, type CreationOptions, type PromisedRoom } from './creation.js'

const limits = { vcpuMilli: 1000, ramMb: 512, diskGb: 10 }
const guest = Guest.fromPartial({ virtualization: 'lxc', limits })

describe('the target of a move', () => {
  let moving: PromisedRoom[]
  let creator: GuestCreator
  beforeEach(() => {
    moving = []
    const view = new FleetState()
    const times = { createdAtMs: 0, certificateNotAfterMs: 0 }
    const host = view.setHost({
      id: 'b',
      version: 1,
      name: 'b',
      address: 'b:1',
      draining: false,
      serials: [],
      ...times,
    })
    view.setOnline(host, true)
    host.description = HostDescription.fromPartial({
      features: ['move'],
      capabilities: { lxc: true },
      capacity: { cpuCores: 2, ramTotalMb: 1024, diskTotalGb: 20 },
    })
    const options = { view, ratios: { cpu: 1, ram: 1, disk: 1 }, moving: () => moving }
    creator = new GuestCreator(options as unknown as CreationOptions)
  })

  const place = (): string => creator.placeMoved({ guest, hostId: 'a' } as never, 'b')
  const room = { hostId: 'b', limits: guest.limits }

  it('has room for a guest while one other guest moves to the same host', () => {
    moving = [room]
    expect(place()).to.equal('b')
  })

  it('has no room for a guest while two other guests move to the same host', () => {
    moving = [room, room]
    expect(place).to.throw(BerthError, /free resources/)
  })

  it('is not found while other moves that are about to begin need the free resources of the host', () => {
    const releases = [creator.promise({ ...room }), creator.promise({ ...room })]
    expect(place).to.throw(BerthError, /free resources/)
    releases.forEach((release) => release())
    expect(place()).to.equal('b')
  })
})
