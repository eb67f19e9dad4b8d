import { expect } from 'chai'
import { noPlacement, type PlacementRules } from '../../../shared/placement-rules.js'
import {
  findBroken,
  noNeighbors,
  planNeighbors,
  ruleChecks,
  type GuestToPlace,
  type PlacedGuest,
} from './plan-rules.js'

const limits = { vcpuMilli: 1000, ramMb: 512, diskGb: 10 }
const hosts = [
  { id: 'a', group: 'eu', labels: ['ssd'] },
  { id: 'b', group: 'eu', labels: ['disk=nvme', 'ssd'] },
  { id: 'c', group: 'us', labels: [] },
]
const on = (hostId: string, uuid: string | undefined, rules: Partial<PlacementRules>): PlacedGuest => ({
  hostId,
  uuid,
  rules: { ...noPlacement, ...rules },
  limits,
})
const web = { spread: 'web' }
const app = { together: 'app' }

describe('the placement rules of a guest', () => {
  for (const [name, rules, placed, guest, allowed] of [
    ['allow every host by default', {}, [on('a', 'x', { ...web, ...app })], {}, 'abc'],
    ['allow only hosts of the required group', { group: 'eu' }, [], {}, 'ab'],
    ['allow only hosts with all required labels', { labels: ['ssd', 'disk'] }, [], {}, 'b'],
    ['allow no host if none has the required label', { labels: ['gpu'] }, [], {}, ''],
    [
      'allow no host that has a guest with the same “spread” name',
      web,
      [on('a', 'x', web), on('c', undefined, web)],
      {},
      'b',
    ],
    ['ignore guests with another “spread” name', web, [on('a', 'x', { spread: 'db' })], {}, 'abc'],
    ['ignore the guest itself', web, [on('a', 'own', web)], { uuid: 'own' }, 'abc'],
    ['allow every host for the first guest with a “together” name', app, [], {}, 'abc'],
    ['allow only the host that has a guest with the same “together” name', app, [on('b', 'x', app)], {}, 'b'],
    [
      'allow only the host that has a reservation for a guest with the same “together” name',
      app,
      [on('b', undefined, app)],
      {},
      'b',
    ],
    [
      'allow each host of guests with the same “together” name if they are already on different hosts',
      app,
      [on('a', 'x', app), on('b', 'y', app)],
      {},
      'ab',
    ],
    [
      'allow only the present host if another guest there has the same “together” name',
      app,
      [on('a', 'x', app)],
      { uuid: 'own', fromHostId: 'a' },
      'a',
    ],
    [
      'allow every host if all guests with the same “together” name leave the present host, too',
      app,
      [on('a', 'x', app)],
      { uuid: 'own', fromHostId: 'a', alsoMoving: new Set(['x']) },
      'abc',
    ],
    [
      'allow only the host to which another guest with the same “together” name has already moved',
      app,
      [on('b', 'x', app), on('a', 'y', app)],
      { uuid: 'own', fromHostId: 'a', alsoMoving: new Set(['x', 'y']) },
      'b',
    ],
    ['must all be fulfilled', { group: 'eu', ...web }, [on('a', 'x', web)], {}, 'b'],
  ] as const)
    it(name, () => {
      const all = { ...noPlacement, ...rules }
      const checks = ruleChecks(all, planNeighbors(placed, { ...(guest as Partial<GuestToPlace>), rules: all }))
      expect(
        hosts
          .filter((host) => !findBroken(host, checks))
          .map(({ id }) => id)
          .join(''),
      ).to.equal(allowed)
    })

  for (const [rules, code] of [
    [{ group: 'asia' }, 'placement_group'],
    [{ labels: ['gpu'] }, 'placement_label'],
    [web, 'placement_spread'],
    [app, 'placement_together'],
    [{ group: 'asia', ...web }, 'placement_group'],
  ] as const)
    it(`names the broken rule as ${code} for ${JSON.stringify(rules)}`, () => {
      const all = { ...noPlacement, ...rules }
      const neighbors = planNeighbors([on('a', 'x', web), on('b', 'y', app)], { rules: all })
      expect(findBroken(hosts[0]!, ruleChecks(all, neighbors))?.code).to.equal(code)
    })

  it('require resources for all guests that will follow to the same host', () => {
    const guest = { uuid: 'own', fromHostId: 'a', rules: { ...noPlacement, ...app }, alsoMoving: new Set(['x', 'y']) }
    const { following } = planNeighbors([on('a', 'x', app), on('a', 'y', app), on('a', 'z', app)], guest)
    expect(following).to.deep.equal({ vcpuMilli: 2000, ramMb: 1024, diskGb: 20 })
    expect(planNeighbors([on('a', 'x', app)], { rules: noPlacement })).to.equal(noNeighbors)
  })

  it('require no further resources for a guest that already has a reservation on the target', () => {
    const guest = { uuid: 'own', fromHostId: 'a', rules: { ...noPlacement, ...app }, alsoMoving: new Set(['x', 'y']) }
    const { following, together } = planNeighbors([on('a', 'x', app), on('a', 'y', app), on('b', 'x', app)], guest)
    expect(following).to.deep.equal(limits)
    expect([...together]).to.deep.equal([['b', 1]])
  })
})
