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
    ['stays the same for an omitted field', 'size_mb', {}, '', false],
    ['stays the same without a body', 'size_mb', undefined, '', false],
    ['reports empty text', 'size_mb', { size_mb: '' }, '', true],
    ['reports null', 'size_mb', { size_mb: null }, '', true],
    ['reports an empty parameter', 'template_id', {}, 'template_id=', true],
    ['finds a field of a list', 'containers[1].name', { containers: [{}, { name: '' }] }, '', true],
    ['does not find a field of another entry', 'containers[0].name', { containers: [{}, { name: '' }] }, '', false],
    ['finds a nested field', 'schedule.time', { schedule: { time: null } }, '', true],
    ['does not find a field of an object’s prototype', 'constructor', {}, '', false],
  ] as const)
    it(name, () => {
      const rule = isSent ? 'must not be empty' : 'is required'
      expect(messageOf(missing(field), body, query)).to.equal(`${field}: ${rule}, for example 64`)
    })

  it('does not change other errors', () => {
    const error = invalidField('name', 'name: is required')
    expect(explainMissing(error, { bodyBytes: Buffer.from('{"name":""}') }, '')).to.equal(error)
  })
})
