import { expect } from 'chai'
import { isStandbySnapshot, nextStandbySnapshot, sortStandbySnapshots } from './standby-ids.js'

const standby = '11112222-0000-4000-8000-000000000000'

describe('the ids of a standby’s snapshots', () => {
  for (const [name, known, sorted, next] of [
    ['begin with 1', [], [], 'standby-11112222-1'],
    [
      'are numbers',
      ['standby-11112222-10', 'standby-11112222-9'],
      ['standby-11112222-9', 'standby-11112222-10'],
      'standby-11112222-11',
    ],
    ['exclude other standbys', ['standby-33334444-5', 'move-11112222-3'], [], 'standby-11112222-1'],
    [
      'exclude other forms',
      ['standby-11112222-0', 'standby-11112222-1x', 'standby-11112222-'],
      [],
      'standby-11112222-1',
    ],
  ] as const)
    it(name, () => {
      expect(sortStandbySnapshots(known, standby)).to.deep.equal(sorted)
      expect(nextStandbySnapshot(known, standby)).to.equal(next)
    })

  it('do not follow a number that the other host has invented', () => {
    expect(() => nextStandbySnapshot(['standby-11112222-999999999'], standby))
      .to.throw()
      .with.property('code', 'bad_stream')
  })

  it('differ from those of other snapshots', () => {
    expect(['standby-11112222-1', 'move-11112222-1', standby].map(isStandbySnapshot)).to.deep.equal([
      true,
      false,
      false,
    ])
  })
})
