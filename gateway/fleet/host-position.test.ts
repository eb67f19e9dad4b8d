import { expect } from 'chai'
import { planNewsAfter } from './host-position.js'

describe('changes of a host since a former process', () => {
  const now = { epoch: 'a', revision: 7 }
  for (const [title, former, expected] of [
    ['do not exist if it did not know the host', undefined, undefined],
    ['are those after its revision', { epoch: 'a', revision: 5 }, 5],
    ['are everything in another journal', { epoch: 'b', revision: 5 }, -1],
    ['are everything in an older copy of the journal', { epoch: 'a', revision: 8 }, -1],
  ] as const)
    it(title, () => expect(planNewsAfter(former, now)).to.equal(expected))
})
