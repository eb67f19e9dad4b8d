import { expect } from 'chai'
import { planNewsAfter } from './host-position.js'

describe('the position up to which a restarting gateway knows a host’s changes', () => {
  const now = { epoch: 'a', revision: 7 }
  for (const [title, former, expected] of [
    ['is unknown if the previous gateway process did not know the host', undefined, undefined],
    ['is the last revision that the previous gateway process knew', { epoch: 'a', revision: 5 }, 5],
    ['is -1 (before all changes) if the host now has a different journal', { epoch: 'b', revision: 5 }, -1],
    [
      'is -1 (before all changes) if the journal of the host was restored from an older copy',
      { epoch: 'a', revision: 8 },
      -1,
    ],
  ] as const)
    it(title, () => expect(planNewsAfter(former, now)).to.equal(expected))
})
