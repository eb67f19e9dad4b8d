import { digestToken } from '../../../gateway/accounts/session-secret.js'
import type { TestGateway } from './test-gateway.js'

/** Changes a stored session as if its user had confirmed the password eleven minutes ago. @param token its cookie */
export async function forgetConfirmation({ store }: Pick<TestGateway, 'store'>, token: string): Promise<void> {
  const key = store.key('session', digestToken(token))
  const record = JSON.parse((await store.client.get(key))!) as object
  const old = { ...record, confirmedAtMs: Date.now() - 11 * 60_000 }
  await store.client.set(key, JSON.stringify(old), { expiration: 'KEEPTTL' })
  await store.ping() // waits until the gateway has received the change
}
