import { expect } from 'chai'
import { Guest, GuestStandby } from '../../../proto/gen/berth/agent/v1/guest.js'
import { createTimeFormat } from '../../../shared/time.js'
import type { GuestView } from '../../fleet/contract.js'
import { createDescribe } from './describe.js'

const uuid = '11111111-1111-4111-8111-111111111111'
const limits = { vcpuMilli: 1000, ramMb: 512, diskGb: 10 }
const results = { takenAtMs: 1000, sentBytes: 5, triedAtMs: 2000, failures: 0, error: '' }
const standby = { standbyId: 's1', hostId: 'b', intervalMinutes: 5, bandwidthMbps: 0, ...results }

function viewOf(changes: object, standbyChanges: object = {}): GuestView {
  const base = { id: 1, uuid, name: 'web', virtualization: 'lxc', status: 'running', limits, ...changes }
  const guest = { ...Guest.fromPartial(base), standby: GuestStandby.fromPartial({ ...standby, ...standbyChanges }) }
  return { hostId: 'a', guest, online: true, hostAddress: '', maintenance: undefined }
}

describe('the events of a guest with a standby', () => {
  const describe_ = createDescribe(createTimeFormat('UTC'))
  for (const [name, after, expected] of [
    [
      'do not include a change of the guest after an increment',
      viewOf({ revision: 2 }, { takenAtMs: 3000, triedAtMs: 4000, sentBytes: 9 }),
      [],
    ],
    ['show a change of the guest', viewOf({ status: 'stopped' }, { triedAtMs: 4000 }), ['guest.updated']],
    ['show a change of the settings of the standby', viewOf({}, { intervalMinutes: 9 }), ['guest.updated']],
    ['show that the standby fails', viewOf({}, { failures: 3, error: 'offline' }), ['guest.standby_failed']],
  ] as const)
    it(name, () => {
      const events = describe_({ kind: 'guest', before: viewOf({ revision: 1 }), after }, 'a')
      expect(events.map(({ type }) => type)).to.deep.equal(expected)
    })
})
