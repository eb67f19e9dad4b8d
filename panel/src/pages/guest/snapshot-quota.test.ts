import { expect } from 'chai'
import { planQuota, quotaForm } from './snapshot-quota.ts'

const gib = 1024 ** 3
const saved = quotaForm(3, 20.4 * gib)

describe('the request of the form for the snapshot quota', () => {
  for (const [name, form, request] of [
    ['no space limit if only the number was changed', { ...saved, count: 5 }, { snapshot_limit: 5 }],
    [
      'the space limit if it was changed',
      { ...saved, spaceGib: 40 },
      { snapshot_limit: 3, space_limit_bytes: 40 * gib },
    ],
    ['0 if the default was requested', { ...saved, spaceGib: 0 }, { snapshot_limit: 3, space_limit_bytes: 0 }],
  ] as const)
    it(`contains ${name}`, () => expect(planQuota(form, saved)).to.deep.equal(request))
})
