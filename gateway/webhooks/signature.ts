import { createHmac, randomBytes } from 'node:crypto'

/* Signatures follow the Standard Webhooks specification, so that receivers can use its libraries. */

const prefix = 'whsec_'
const secretBytes = 32

export function makeSecret(): string {
  return prefix + randomBytes(secretBytes).toString('base64')
}

export interface SignedMessage {
  /** Id of the message, the same for all attempts. */
  readonly id: string
  readonly atMs: number
  readonly body: string
}

/** Creates headers that sign id, time and body of a message. The receiver uses them to verify the sender. */
export function signatureHeaders(secret: string, { id, atMs, body }: SignedMessage): Record<string, string> {
  const timestamp = String(Math.floor(atMs / 1000))
  const key = Buffer.from(secret.slice(prefix.length), 'base64')
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` }
}
