import { expect } from 'chai'
import { planNewsAfter } from './host-position.js'

describe('planNewsAfter, which returns the last revision of a host before the changes that are new to a restarted gateway,', () => {
  const now = { epoch: 'a', revision: 7 }
  for (const [title, former, expected] of [
    ['returns no revision if the previous gateway process did not know the host', undefined, undefined],
    ['returns the last revision that the previous gateway process knew', { epoch: 'a', revision: 5 }, 5],
    [
      'returns -1, which makes all changes new, if the host now has a different journal',
      { epoch: 'b', revision: 5 },
      -1,
    ],
    [
      'returns -1, which makes all changes new, if the journal of the host was restored from an older copy',
      { epoch: 'a', revision: 8 },
      -1,
    ],
  ] as const)
    it(title, () => expect(planNewsAfter(former, now)).to.equal(expected))
})
