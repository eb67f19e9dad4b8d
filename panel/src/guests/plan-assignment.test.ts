import { expect } from 'chai'
import { addGuests } from './plan-assignment.ts'

/** Runs an assignment. After each of the first writes, another client replaces the guests with those in `others`. */
async function assign(others: readonly (readonly string[])[]) {
  let stored: readonly string[] = ['old']
  const writes: (readonly string[])[] = []
  const write = (uuids: readonly string[]): Promise<void> => {
    stored = others[writes.length] ?? uuids
    writes.push(uuids)
    return Promise.resolve()
  }
  const isAssigned = await addGuests({ read: () => Promise.resolve(stored), write }, ['old', 'new'])
  return { isAssigned, stored, writes: writes.length }
}

describe('the assignment of guests to a customer', () => {
  for (const [name, others, expected] of [
    ['writes the guests only once', [], { isAssigned: true, stored: ['old', 'new'], writes: 1 }],
    [
      'is repeated, and keeps the guests that another client has assigned meanwhile',
      [['old', 'other']],
      { isAssigned: true, stored: ['old', 'other', 'new'], writes: 2 },
    ],
    ['fails if other clients overwrite it twice', [['a'], ['b']], { isAssigned: false, stored: ['b'], writes: 2 }],
  ] as const)
    it(name, async () => expect(await assign(others)).to.deep.equal(expected))
})
