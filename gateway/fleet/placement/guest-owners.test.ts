import { expect } from 'chai'
import { pino } from 'pino'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { HostState } from '../host-state.js'
import { GuestOwners, type GuestOwnersParts } from './guest-owners.js'

const guest = { uuid: 'u1', id: 1, name: 'web', revision: 1 } as Guest

describe('a host with a copy of a guest that another host owns', () => {
  for (const [title, role, features, expected] of [
    ['is informed', 'owner', [], [['u1', 4]]],
    ['is informed of the owner of a guest that it has handed over', 'handed_over', ['keep-copy'], [['u1', 4]]],
    ['is not informed if its agent would delete the disk that it has handed over', 'handed_over', ['move'], []],
  ] as const)
    it(title, async () => {
      const refused = new Map([['u1', { reason: 'it belongs to host b', ownerGeneration: 4 }]])
      const parts = {
        view: { disown: () => undefined },
        registry: { claim: async () => refused },
        log: pino({ level: 'silent' }),
      }
      const host = { record: { id: 'a' }, outdated: new Map([['u1', 3]]), description: { features } }
      const reported = { ...guest, ownership: { role, generation: 2, moveId: 'm' } }
      await new GuestOwners(parts as unknown as GuestOwnersParts).check(host as unknown as HostState, [reported], 'e')
      expect([...host.outdated]).to.deep.equal(expected)
    })
})
