import { api, ask, send } from '../api/client.ts'
import { ApiFailure } from '../api/failure.ts'
import { addGuests } from './plan-assignment.ts'

/**
 * Gives a customer guests in addition to those that the customer has.
 * @param customerId id of the sub-user
 * @throws {ApiFailure} `not_found` if the customer was deleted, `precondition_failed` if other changes undo this one
 */
export async function assignGuests(customerId: string, uuids: readonly string[]): Promise<void> {
  const read = async (): Promise<readonly string[]> => {
    const customers = await ask(() => api.GET('/sub-users', { cache: 'no-store' }))
    const customer = customers.find(({ id }) => id === customerId)
    if (customer === undefined) throw new ApiFailure('not_found', 'the customer does not exist')
    return customer.container_uuids
  }
  const write = async (all: readonly string[]): Promise<void> => {
    const params = { path: { id: Number(customerId) } }
    await send(() => api.PATCH('/sub-users/{id}', { params, body: { container_names: [...all] } }))
  }
  if (!(await addGuests({ read, write }, uuids)))
    throw new ApiFailure('precondition_failed', 'the guests of the customer were changed at the same time')
}
