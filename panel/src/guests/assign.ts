import { api, send } from '../api/client.ts'

/**
 * Gives a customer guests in addition to those that the customer has.
 * @param customerId id of the sub-user
 * @throws {ApiFailure} `not_found` if the customer or a guest was deleted
 */
export async function assignGuests(customerId: string, uuids: readonly string[]): Promise<void> {
  const params = { path: { id: Number(customerId) } }
  await send(() => api.PATCH('/sub-users/{id}', { params, body: { add_container_names: [...uuids] } }))
}
