import { expect } from 'chai'
import { planClaims, type GuestClaim, type Reservation } from './plan-claims.js'

const claim = (uuid: string, id: number, name = `name-${uuid}`): GuestClaim => ({ uuid, id, name })
const held = (reservations: readonly (GuestClaim & Pick<Reservation, 'hostId' | 'namedAt'>)[]) => ({
  byUuid: new Map(
    reservations.map((one): [string, Reservation] => [one.uuid, { ...one, operationId: '', reservedAtMs: 0 }]),
  ),
  byName: new Map(reservations.map((one) => [one.name.toLowerCase(), one.uuid])),
  byId: new Map(reservations.map((one) => [one.id, one.uuid])),
})

describe('the registration of guests that host “a” reports', () => {
  for (const [name, claims, reserved, add, refused] of [
    ['does nothing if the host reports no guests', [], [], [], []],
    ['registers unknown guests', [claim('u1', 1), claim('u2', 2)], [], ['u1', 'u2'], []],
    [
      'does not change guests that are already registered for the host',
      [claim('u1', 1)],
      [{ ...claim('u1', 1), hostId: 'a' }],
      [],
      [],
    ],
    [
      'rejects a guest that is registered for another host',
      [claim('u1', 1)],
      [{ ...claim('u1', 1), hostId: 'b' }],
      [],
      ['u1'],
    ],
    [
      'rejects a guest with the name of another guest, even in a different case',
      [claim('u1', 1, 'WEB')],
      [{ ...claim('u2', 2, 'web'), hostId: 'a' }],
      [],
      ['u1'],
    ],
    [
      'rejects a guest with the id of another guest',
      [claim('u1', 2)],
      [{ ...claim('u2', 2), hostId: 'b' }],
      [],
      ['u1'],
    ],
    [
      'rejects the second of two reported guests with the same name',
      [claim('u1', 1, 'web'), claim('u2', 2, 'Web')],
      [],
      ['u1'],
      ['u2'],
    ],
    [
      'rejects the second of two reported guests with the same id',
      [claim('u1', 1), claim('u2', 1)],
      [],
      ['u1'],
      ['u2'],
    ],
  ] as const)
    it(name, () => {
      const plan = planClaims('a', claims, held(reserved))
      expect(plan.add.map(({ uuid }) => uuid)).to.deep.equal(add)
      expect([...plan.refused.keys()]).to.deep.equal(refused)
    })

  for (const [name, claims, renamed, refused] of [
    ['updates the name of a guest that was renamed', [claim('u1', 1, 'new')], ['new'], []],
    ['updates a name that differs only in case', [claim('u1', 1, 'OLD')], ['OLD'], []],
    ['rejects a renamed guest if its new name belongs to another guest', [claim('u1', 1, 'taken')], [], ['u1']],
    [
      'rejects the second of two guests that get the same name',
      [claim('u1', 1, 'new'), claim('u2', 2, 'NEW')],
      ['new'],
      ['u2'],
    ],
  ] as const)
    it(name, () => {
      const guests = [
        { ...claim('u1', 1, 'old'), hostId: 'a' },
        { ...claim('u2', 2, 'taken'), hostId: 'a' },
      ]
      const plan = planClaims('a', claims, held(guests))
      expect(plan.renamed.map((one) => one.name)).to.deep.equal(renamed)
      expect([...plan.refused.keys()]).to.deep.equal(refused)
    })

  const namedAt = { epoch: 'e', revision: 7 }
  for (const [name, reportedAt, renamed] of [
    ['ignores a name from a report that is older than the present name', { epoch: 'e', revision: 6 }, []],
    ['takes a name from a newer report', { epoch: 'e', revision: 8 }, ['old']],
    ['takes a name from a report after the journal of the host was replaced', { epoch: 'f', revision: 1 }, ['old']],
  ] as const)
    it(name, () => {
      const stored = held([{ ...claim('u1', 1, 'new'), hostId: 'a', namedAt }])
      const plan = planClaims('a', [{ ...claim('u1', 1, 'old'), reportedAt }], stored)
      expect(plan.renamed.map((one) => one.name)).to.deep.equal(renamed)
      expect(plan.refused.size).to.equal(0)
    })

  const known = held([{ ...claim('u1', 1), generation: 2, hostId: 'b' }])
  for (const [name, change, expected] of [
    ['stops a copy with a lower generation than the registered owner’s', { generation: 1 }, 2],
    ['stops a copy that is older than the first move of the guest', {}, 2],
    ['sends the newest generation to the host of a copy that it does not own', { generation: 1, isOwner: false }, 2],
    ['does not stop a copy with the generation of the registered owner', { generation: 2 }, undefined],
  ] as const)
    it(name, () => {
      const { refused } = planClaims('a', [{ ...claim('u1', 1), ...change }], known)
      expect(refused.get('u1')).to.have.property('reason')
      expect(refused.get('u1')?.ownerGeneration).to.equal(expected)
    })

  for (const [name, change, expected] of [
    ['stops an old copy of a guest that was deleted on another host', { generation: 1 }, { add: [], stopped: 2 }],
    [
      'sends the last generation of a deleted guest to the host of a copy that it does not own',
      { isOwner: false },
      { add: [], stopped: 2 },
    ],
    [
      'registers a deleted guest again that its last host reports',
      { generation: 2 },
      { add: ['u1'], stopped: undefined },
    ],
  ] as const)
    it(name, () => {
      const { add, refused } = planClaims('a', [{ ...claim('u1', 1), ...change }], {
        ...held([]),
        former: new Map([['u1', 2]]),
      })
      const result = { add: add.map(({ uuid }) => uuid), stopped: refused.get('u1')?.ownerGeneration }
      expect(result).to.deep.equal(expected)
    })
})
