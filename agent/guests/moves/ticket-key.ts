import { createPrivateKey, X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { BerthError, conflict, invalidField } from '../../../shared/errors.js'
import { getIdentity } from '../../enrollment/identity.js'
import type { GuestContext } from '../context.js'

type KeyContext = Pick<GuestContext, 'config' | 'logins'>

/**
 * Returns the agent's present key, sealed. The move needs this key for the ticket, even after a renewal of the key.
 * @throws {BerthError} `key_renewed` if the ticket was issued for an earlier key
 */
export function sealTicketKey({ config, logins }: KeyContext, uuid: string, ticket: string): string {
  return logins.seal(uuid, { password: readTicketKey(config, ticket) })
}

/** Returns the agent's present key, in PEM. @throws {BerthError} `key_renewed` if the ticket was issued for another key */
export function readTicketKey(config: GuestContext['config'], ticket: string): string {
  const { privateKeyPem } = getIdentity(join(config.state_dir, 'identity'))
  if (!isFor(ticket, privateKeyPem))
    throw new BerthError('unavailable', 'key_renewed', 'the key of the host was just renewed: try again')
  return privateKeyPem
}

export function openTicketKey({ logins }: KeyContext, uuid: string, sealed: string): string {
  return logins.open({ uuid, login: sealed }).password ?? ''
}

/**
 * Checks that the ticket is valid for at least `neededMs` more. Called before the guest is stopped.
 * @throws {BerthError} `ticket_expired`
 */
export function refuseShortTicket(ticket: string, { nowMs, neededMs }: { nowMs: number; neededMs: number }): void {
  if (Date.parse(new X509Certificate(ticket).validTo) >= nowMs + neededMs) return
  throw conflict(
    'ticket_expired',
    'copying the container took too long: the permission for this move expires. Allow more bandwidth, then move the container again',
  )
}

function isFor(ticket: string, privateKeyPem: string): boolean {
  try {
    return new X509Certificate(ticket).checkPrivateKey(createPrivateKey(privateKeyPem))
  } catch {
    throw invalidField('ticket', 'ticket: must be a certificate')
  }
}
