import { createHmac, randomBytes } from 'node:crypto'

/* Follows the Standard Webhooks specification, so that receivers can use its libraries. */

const prefix = 'whsec_'
const secretBytes = 32

export function makeSecret(): string {
  return prefix + randomBytes(secretBytes).toString('base64')
}

export interface SignedMessage {
  /** The same for every attempt. */
  readonly id: string
  readonly atMs: number
  readonly body: string
}

/**
 * Headers by which a receiver verifies the sender and the time of a message: the signature covers id, time and body.
 */
export function signatureHeaders(secret: string, { id, atMs, body }: SignedMessage): Record<string, string> {
  const timestamp = String(Math.floor(atMs / 1000))
  const key = Buffer.from(secret.slice(prefix.length), 'base64')
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` }
}
