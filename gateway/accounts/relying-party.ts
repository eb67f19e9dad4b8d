import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import { conflict } from '../../shared/errors.js'

/** The server for which browsers create passkeys (https://www.w3.org/TR/webauthn-3/). */
export interface RelyingParty {
  /** Host name without a port. Passkeys of another name are not valid. */
  readonly id: string
  /** Origin of the pages that may use the passkeys. */
  readonly origin: string
}

export interface PageAddress {
  readonly headers: Pick<IncomingHttpHeaders, 'host'>
  /** True if the browser uses TLS. */
  readonly secure: boolean
}

/**
 * Returns the relying party for the public URL of the panel. If this URL is not known, uses the address in the browser.
 * A passkey is only valid at the address for which it was created.
 * @param publicUrl "": not known
 * @throws {BerthError} `passkeys_unavailable` for an IP address, for which browsers create no passkeys
 */
export function relyingPartyOf(publicUrl: string, { headers: { host = '' }, secure }: PageAddress): RelyingParty {
  const address = publicUrl === '' ? `${secure ? 'https' : 'http'}://${host}` : publicUrl
  const url = URL.canParse(address) ? new URL(address) : undefined
  const name = url?.hostname ?? ''
  if (url === undefined || name === '' || name.startsWith('[') || isIP(name) !== 0)
    throw conflict(
      'passkeys_unavailable',
      'passkeys need a public URL with a DNS name: an administrator must set it with PUT /public-url',
    )
  return { id: name, origin: url.origin }
}
