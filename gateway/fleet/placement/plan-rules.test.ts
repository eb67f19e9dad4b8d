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
    ['allow only hosts of the group', { group: 'eu' }, [], {}, 'ab'],
    ['allow only hosts with all labels', { labels: ['ssd', 'disk'] }, [], {}, 'b'],
    ['allow no host if none has the label', { labels: ['gpu'] }, [], {}, ''],
    ['keep guests apart', web, [on('a', 'x', web), on('c', undefined, web)], {}, 'b'],
    ['ignore guests that are kept apart under another name', web, [on('a', 'x', { spread: 'db' })], {}, 'abc'],
    ['ignore the guest itself', web, [on('a', 'own', web)], { uuid: 'own' }, 'abc'],
    ['allow every host for the first of the guests that stay together', app, [], {}, 'abc'],
    ['keep guests together', app, [on('b', 'x', app)], {}, 'b'],
    ['keep a guest together with a guest that has only a reservation', app, [on('b', undefined, app)], {}, 'b'],
    [
      'allow each host of guests that should be together but are already apart',
      app,
      [on('a', 'x', app), on('b', 'y', app)],
      {},
      'ab',
    ],
    ['keep a guest on the host of its partners', app, [on('a', 'x', app)], { uuid: 'own', fromHostId: 'a' }, 'a'],
    [
      'allow every host if all partners leave the host, too',
      app,
      [on('a', 'x', app)],
      { uuid: 'own', fromHostId: 'a', alsoMoving: new Set(['x']) },
      'abc',
    ],
    [
      'allow only the host to which a partner has already moved',
      app,
      [on('b', 'x', app), on('a', 'y', app)],
      { uuid: 'own', fromHostId: 'a', alsoMoving: new Set(['x', 'y']) },
      'b',
    ],
    ['are applied together', { group: 'eu', ...web }, [on('a', 'x', web)], {}, 'b'],
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

  it('sum the resources of the guests that move to the same host later', () => {
    const guest = { uuid: 'own', fromHostId: 'a', rules: { ...noPlacement, ...app }, alsoMoving: new Set(['x', 'y']) }
    const { following } = planNeighbors([on('a', 'x', app), on('a', 'y', app), on('a', 'z', app)], guest)
    expect(following).to.deep.equal({ vcpuMilli: 2000, ramMb: 1024, diskGb: 20 })
    expect(planNeighbors([on('a', 'x', app)], { rules: noPlacement })).to.equal(noNeighbors)
  })

  it('do not count a guest again if it has a reservation on its target', () => {
    const guest = { uuid: 'own', fromHostId: 'a', rules: { ...noPlacement, ...app }, alsoMoving: new Set(['x', 'y']) }
    const { following, together } = planNeighbors([on('a', 'x', app), on('a', 'y', app), on('b', 'x', app)], guest)
    expect(following).to.deep.equal(limits)
    expect([...together]).to.deep.equal([['b', 1]])
  })
})
