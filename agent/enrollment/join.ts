import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { BerthError } from '../../shared/errors.js'
import { askJoinEndpoint } from '../../shared/join-client.js'
import { joinPath, parseJoinToken, type JoinRequest } from '../../shared/join-token.js'
import { writeIdentity, type AgentIdentity } from './identity.js'

/** Returns the join token. Reads it from `input` if the argument is `-`, because all users can see arguments. */
export async function readJoinToken(argument: string, input: Readable): Promise<string> {
  return argument === '-' ? (await text(input)).trim() : argument
}

/**
 * Joins a gateway (`berth-agent join -`): creates a key, gets a certificate for it, and stores the key and the
 * certificate together. An existing identity is replaced only after the gateway has answered.
 * @param port port on which the agent listens; the gateway uses it if it knows no address of this host
 * @throws {BerthError} `join_token_invalid`, `gateway_untrusted`, `gateway_unreachable`, or the gateway's refusal
 */
export async function joinGateway(token: string, identityDir: string, port?: number): Promise<AgentIdentity> {
  const content = parseJoinToken(token)
  if (content.expiresAtMs <= Date.now())
    throw new BerthError('invalid', 'join_token_invalid', 'the join token has expired: create a new one')
  const { createCsrPem, createPrivateKeyPem } = await import('./csr.js')
  const privateKeyPem = createPrivateKeyPem()
  const csr = await createCsrPem(privateKeyPem)
  const request: JoinRequest = { token: token.trim(), csr, now_ms: Date.now(), ...(port !== undefined && { port }) }
  const { fields, caPem } = await askJoinEndpoint(content, joinPath, request)
  const { host_id: hostId, certificate, authorities } = fields
  if (typeof certificate !== 'string' || hostId !== content.hostId)
    throw new BerthError('internal', 'gateway_untrusted', 'the gateway returned the identity of another host')
  // Stores the CA whose fingerprint was checked, not the CA in the answer.
  const parts = { privateKeyPem, certificatePem: certificate, caPem }
  return writeIdentity(identityDir, { ...parts, otherAuthorities: otherAuthorities(authorities, caPem) })
}

/** Returns the other CAs of the fleet's gateways and hosts. They exist while the fleet changes to another CA. */
function otherAuthorities(answer: unknown, caPem: string): string[] {
  const list: readonly unknown[] = Array.isArray(answer) ? answer : []
  return list.filter((pem): pem is string => typeof pem === 'string' && pem !== caPem)
}
