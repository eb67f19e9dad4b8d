import { expect } from 'chai'
import { planNewsAfter } from './host-position.js'

describe('changes of a host that are new after a restart of the gateway', () => {
  const now = { epoch: 'a', revision: 7 }
  for (const [title, former, expected] of [
    ['do not exist if the previous gateway process did not know the host', undefined, undefined],
    ['are those after the last revision that the previous gateway process knew', { epoch: 'a', revision: 5 }, 5],
    ['are all changes if the host now has a different journal', { epoch: 'b', revision: 5 }, -1],
    ['are all changes if the journal of the host was restored from an older copy', { epoch: 'a', revision: 8 }, -1],
  ] as const)
    it(title, () => expect(planNewsAfter(former, now)).to.equal(expected))
})
