import { expect } from 'chai'
import { RefusedError } from '../../client/index.js'
import type { Operation } from '../catalog/operation.js'
import { withFlag } from './flag-errors.js'

const operation = {
  arguments: [{ label: 'name', place: 'body', field: 'name' }],
  flags: [{ name: 'image', place: 'body', field: 'template_id', type: 'text', text: '' }],
} as unknown as Operation
const messageOf = (message: string, field?: string): string => {
  const refusal = { message, code: 'invalid_field', ...(field !== undefined && { field }) }
  return (withFlag(new RefusedError(400, refusal), operation) as Error).message
}

describe('an error about a field of the API', () => {
  for (const [message, field, shown] of [
    ['template_id: does not exist', 'template_id', '--image: does not exist (invalid_field)'],
    ['name: is too long', 'name', 'NAME: is too long (invalid_field)'],
    ['other: is wrong', 'other', 'other: is wrong (invalid_field)'],
    ['the template_id is wrong', 'template_id', 'the template_id is wrong (invalid_field)'],
    ['template_id: does not exist', undefined, 'template_id: does not exist (invalid_field)'],
  ] as const)
    it(`is shown as: ${shown}${field ? '' : ', if the field is not known'}`, () =>
      expect(messageOf(message, field)).to.equal(shown))
})
