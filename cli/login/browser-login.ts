import { hostname } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { isTemporary, RefusedError, type BerthClient, type Connection } from '../../client/index.js'
import { CliError, exitCodes } from '../errors.js'
import { printable } from '../output/width.js'
import { loginSource } from '../gateway-source.js'
import { openClient } from '../session.js'
import type { Surroundings } from '../surroundings.js'
import { openBrowser } from './open-browser.js'

/* This module logs in through the panel, like the device authorization of RFC 8628. */

export interface BrowserLogin {
  /** URL of the gateway, and its certificate. */
  readonly gateway: Omit<Connection, 'key'>
  /** True if the page is opened in a browser of this machine. */
  readonly opensBrowser: boolean
  readonly surroundings: Surroundings
}

/** The login that the gateway has begun, as the API returns it. */
interface BegunLogin {
  readonly device_code: string
  readonly user_code: string
  readonly expires_in: number
  readonly interval: number
}

/**
 * Shows a code, and waits until a user confirms it in the panel.
 * @returns the new API key; `undefined`: the gateway has an older version, which offers no such login
 * @throws {CliError} if the login is denied or expires
 */
export async function logInByBrowser({ gateway, opensBrowser, surroundings }: BrowserLogin) {
  const client = openClient({ ...gateway, key: '', source: loginSource }, surroundings)
  const begun = await begin(client)
  if (!begun) return undefined
  const page = `${gateway.url}/#/cli-login`
  surroundings.writeError(`Open ${page} and type this code: ${printable(begun.user_code)}\n`)
  if (opensBrowser) openBrowser(page, surroundings)
  const minutes = Math.round(begun.expires_in / 60)
  surroundings.writeError(`Waiting for the confirmation in the panel, for at most ${minutes} minutes …\n`)
  return waitForKey(client, begun, surroundings)
}

async function begin(client: BerthClient): Promise<BegunLogin | undefined> {
  try {
    const answer = await client.send({
      method: 'POST',
      path: '/cli-logins',
      body: { machine: machineName(hostname()) },
    })
    return answer.data as BegunLogin
  } catch (cause) {
    if (cause instanceof RefusedError && [404, 405, 501].includes(cause.status)) return undefined
    throw cause
  }
}

/** Returns a name that the API accepts: at most 48 printable ASCII characters. */
function machineName(host: string): string {
  return host.replaceAll(/[^\x21-\x7e]/g, '').slice(0, 48) || 'unknown'
}

/** Asks the gateway until the login is answered. A gateway that is unreachable for a moment does not end the login. */
async function waitForKey(client: BerthClient, begun: BegunLogin, surroundings: Surroundings): Promise<string> {
  const { device_code, interval, expires_in: seconds } = begun
  const endMs = surroundings.nowMs() + seconds * 1000
  while (surroundings.nowMs() < endMs) {
    await delay(Math.max(1, interval) * 1000)
    const key = await poll(client, device_code)
    if (key !== undefined) return key
  }
  throw expired()
}

async function poll(client: BerthClient, device_code: string): Promise<string | undefined> {
  try {
    const { data } = await client.send({ method: 'POST', path: '/cli-logins/poll', body: { device_code } })
    return (data as { key?: string }).key
  } catch (cause) {
    if (cause instanceof RefusedError && cause.code === 'cli_login_unknown') throw expired()
    if (isTemporary(cause)) return undefined
    throw cause
  }
}

const expired = (): CliError =>
  new CliError(exitCodes.notAllowed, 'the login was not confirmed in time', 'log in again: berth login URL')
