import { expect } from 'chai'
import { BerthError, invalidField } from '../../shared/errors.js'
import { explainMissing } from './missing-field.js'

const missing = (field: string, text = 'is required, for example 64') =>
  new BerthError('invalid', 'missing_field', `${field}: ${text}`, { field })
const messageOf = (error: BerthError, body: unknown, query = ''): string => {
  const bodyBytes = Buffer.from(body === undefined ? '' : JSON.stringify(body))
  return (explainMissing(error, { bodyBytes }, query) as BerthError).message
}

describe('the error for a missing field', () => {
  for (const [name, field, body, query, isSent] of [
    ['says "is required" if the field was not sent', 'size_mb', {}, '', false],
    ['says "is required" if the request has no body', 'size_mb', undefined, '', false],
    ['says "must not be empty" for empty text', 'size_mb', { size_mb: '' }, '', true],
    ['says "must not be empty" for null', 'size_mb', { size_mb: null }, '', true],
    ['says "must not be empty" for an empty query parameter', 'template_id', {}, 'template_id=', true],
    [
      'says "must not be empty" for empty text in an entry of a list',
      'containers[1].name',
      { containers: [{}, { name: '' }] },
      '',
      true,
    ],
    [
      'says "is required" if only another entry of the list has the field',
      'containers[0].name',
      { containers: [{}, { name: '' }] },
      '',
      false,
    ],
    ['says "must not be empty" for null in a nested field', 'schedule.time', { schedule: { time: null } }, '', true],
    ['says "is required" for a field that only the prototype of the object has', 'constructor', {}, '', false],
  ] as const)
    it(name, () => {
      const rule = isSent ? 'must not be empty' : 'is required'
      expect(messageOf(missing(field), body, query)).to.equal(`${field}: ${rule}, for example 64`)
    })

  it('does not replace errors about fields that were sent', () => {
    const error = invalidField('name', 'name: is required')
    expect(explainMissing(error, { bodyBytes: Buffer.from('{"name":""}') }, '')).to.equal(error)
  })
})
