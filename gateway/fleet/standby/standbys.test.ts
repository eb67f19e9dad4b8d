import { expect } from 'chai'
import { pino } from 'pino'
import type { BerthError } from '../../../shared/errors.js'
import type { GuestView } from '../contract.js'
import { Standbys, type StandbysOptions } from './standbys.js'

const uuid = '11111111-1111-4111-8111-111111111111'
const description = { features: ['standby'], capacity: { cpuCores: 2, ramTotalMb: 1000, diskTotalGb: 100 } }
const limits = { vcpuMilli: 1000, ramMb: 500, diskGb: 20 }

describe('the check of the host of a standby', () => {
  async function refusal(change: object, allocatedGb: number, hostId = 'b'): Promise<string | undefined> {
    const options = {
      view: {
        findHost: (id: string) => (id === 'c' ? undefined : { id, name: id, state: 'online', description }),
        allocationOf: () => ({ vcpuMilli: 9000, ramMb: 9000, diskGb: allocatedGb }),
      },
      watched: { agent: () => ({ moves: { expectStandby: async () => undefined } }) },
      moves: { readGeneration: async () => 0 },
      ratios: { cpu: 1, ram: 1, disk: 1 },
      log: pino({ level: 'silent' }),
    }
    const guest = { hostId: 'a', online: true, guest: { uuid, virtualization: 'lxc', limits, ...change } }
    const standbys = new Standbys(options as unknown as StandbysOptions)
    return standbys.refuseUnfit(guest as unknown as GuestView, hostId).then(
      () => undefined,
      (error: BerthError) => error.code,
    )
  }

  for (const [name, change, allocatedGb, hostId, expected] of [
    ['accepts a disk that fits, even without free memory', {}, 80, 'b', undefined],
    ['refuses a disk for which the host has too little unallocated space', {}, 81, 'b', 'resource_exhausted'],
    ['accepts a new interval on the same host', { standby: { standbyId: 's', hostId: 'b' } }, 99, 'b', undefined],
    ['refuses a virtual machine', { virtualization: 'kvm' }, 0, 'b', 'unsupported'],
    ['refuses the host on which the guest runs', {}, 0, 'a', 'invalid_field'],
    ['refuses an unknown host', {}, 0, 'c', 'not_found'],
  ] as const)
    it(name, async () => expect(await refusal(change, allocatedGb, hostId)).to.equal(expected))
})
