import { expect } from 'chai'
import { SubmitOperationRequest } from '../../proto/gen/berth/agent/v1/operation.js'
import { parseOrder } from './operation-service.js'

const request = SubmitOperationRequest.fromPartial({
  operationId: '00000000-0000-4000-8000-000000000001',
  requestedBy: 'api:admin',
  order: { $case: 'start', value: { uuid: '00000000-0000-4000-8000-000000000002' } },
})

describe('a submitted operation', () => {
  it('is accepted unchanged, with the name of the caller that requested it', () =>
    expect(parseOrder(request)).to.deep.equal(request))

  for (const [name, change, refusal] of [
    ['if its id is not a UUID', { operationId: '1' }, { code: 'invalid_field', field: 'operation_id' }],
    [
      'if the name of its caller contains a line break',
      { requestedBy: 'a\nb' },
      { code: 'invalid_field', field: 'requested_by' },
    ],
    ['if its kind is unknown to this version of the agent', { order: undefined }, { code: 'unsupported' }],
  ] as const)
    it(`is refused ${name}`, () =>
      expect(() => parseOrder({ ...request, ...change }))
        .to.throw()
        .that.includes(refusal))
})
