import { expect } from 'chai'
import { foldConsoles } from './fold-consoles.ts'

const entry = (action: string, user = 'ada', status = 'success') =>
  ({ kind: 'change', action, status, user, address: '192.0.2.1' }) as const

describe('the timeline of a guest', () => {
  for (const [name, entries, kept] of [
    ['shows one entry for a console session', [entry('console.close'), entry('console.open')], [0]],
    ['shows the beginning of a session that is still open', [entry('console.open')], [0]],
    [
      'shows two overlapping sessions of one user as two entries',
      [entry('console.close'), entry('console.close'), entry('console.open'), entry('console.open')],
      [0, 1],
    ],
    [
      'does not mix the sessions of two users',
      [entry('console.close', 'bob'), entry('console.open', 'ada'), entry('console.open', 'bob')],
      [0, 1],
    ],
    ['shows rejected requests for consoles', [entry('console.close'), entry('console.open', 'ada', 'failure')], [0, 1]],
    ['shows all other entries', [entry('container.start'), entry('container.stop')], [0, 1]],
  ] as const)
    it(name, () => expect(foldConsoles(entries)).to.deep.equal(kept.map((at) => entries[at])))
})
