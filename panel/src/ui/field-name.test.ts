import { expect } from 'chai'
import { findField } from './field-name.ts'

describe('the field of a form for a refused field of a request', () => {
  for (const [refused, fields, found] of [
    ['url', ['name', 'url'], 'url'],
    ['scopes.0', ['name', 'scopes'], 'scopes'],
    ['port_mapping', ['port'], undefined],
    ['host_id', ['name'], undefined],
    [undefined, ['name'], undefined],
  ] as const)
    it(`is ${found ?? 'unknown'} for ${refused} in a form with ${fields.join(' and ')}`, () =>
      expect(findField(refused, fields)).to.equal(found))
})
