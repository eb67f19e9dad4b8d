import { readFileSync } from 'node:fs'
import type { Connection } from '../../client/index.js'
import { CliError, exitCodes, usageError } from '../errors.js'
import type { Surroundings } from '../surroundings.js'
import { configFile, readContexts, type Contexts } from './config-file.js'
import type { AddressSource, GatewaySource } from '../gateway-source.js'

/* This module finds out to which gateway a command sends its requests. */

export const adminKeyFile = '/etc/berth/admin.key'
const gatewayConfigFile = '/etc/berth/gateway.yaml'
const defaultLocalUrl = 'http://127.0.0.1:8080'

/** A connection, and where it comes from. */
export interface FoundConnection extends Connection {
  readonly source: GatewaySource
}

/**
 * Returns the connection of a command from the first source that exists: the named context; BERTH_URL with BERTH_KEY;
 * the context in BERTH_CONTEXT, or else the current one; for root, the gateway of this machine.
 * @param named name of the context from the command line
 * @throws {CliError}
 */
export async function findConnection(surroundings: Surroundings, named: string | undefined): Promise<FoundConnection> {
  const { env, home } = surroundings
  const url = env['BERTH_URL']
  const key = named === undefined ? env['BERTH_KEY'] : undefined
  if (named === undefined && url) return withOwnKey({ url: parseUrl(url), key: requireKey(key) }, 'BERTH_URL')
  const contexts = await readContexts(configFile(env, home))
  const name = named ?? (env['BERTH_CONTEXT'] || contexts.current)
  const found = name === '' ? await findLocal(surroundings) : getContext(contexts, name)
  const address: AddressSource = name === '' ? 'machine' : { context: name }
  if (key) return found ? withOwnKey({ ...found, key }, address) : withOwnKey({ url: defaultLocalUrl, key }, 'default')
  if (found === undefined) throw notLoggedIn()
  return { ...checkKey(found, sourceText(address)), source: { address, hasOwnKey: false } }
}

const notLoggedIn = (): CliError =>
  new CliError(exitCodes.notAllowed, 'not logged in', 'log in to a gateway: berth login URL')

const sourceText = (address: AddressSource): string =>
  typeof address === 'object' ? `context ${address.context}` : adminKeyFile

/** Returns a connection with the key in BERTH_KEY. */
function withOwnKey(connection: Connection, address: AddressSource): FoundConnection {
  return { ...checkKey(connection, 'BERTH_KEY'), source: { address, hasOwnKey: true } }
}

/** Refuses BERTH_URL without BERTH_KEY, because the key of a context must never be sent to a server in BERTH_URL. */
function requireKey(key: string | undefined): string {
  if (key) return key
  throw usageError('BERTH_URL is set without BERTH_KEY', 'set both, or use a context')
}

/**
 * Returns the connection if a request can contain its key.
 * @param source where the key comes from, for the error message
 * @throws {CliError} `usage`
 */
export function checkKey<C extends Connection>(connection: C, source: string): C {
  if (/^[\x20-\x7e]*$/.test(connection.key)) return connection
  throw usageError(
    `${source}: the API key contains a line break or another character that is not allowed`,
    source.startsWith('context ') ? 'log in again: berth login URL' : `correct the key in ${source}`,
  )
}

export function getContext({ contexts }: Contexts, name: string): Connection {
  const found = Object.hasOwn(contexts, name) ? contexts[name] : undefined
  if (found) return found
  throw new CliError(exitCodes.notFound, `context ${name} does not exist`, 'list the contexts: berth context list')
}

/** Checks the URL of a gateway, and removes a slash and `/api/v1` at its end. @throws {CliError} `usage` */
export function parseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw usageError(`${text}: not a URL that begins with https:// or http://`)
  if (url.username || url.password || url.search || url.hash)
    throw usageError(`${text}: must contain only protocol, host, port and path`)
  return `${url.origin}${url.pathname}`.replace(/(\/api(\/v1)?)?\/*$/, '')
}

/** Returns the gateway of this machine, but only for root. Other users cannot read the file with the first key. */
async function findLocal({ isRoot }: Surroundings): Promise<Connection | undefined> {
  const key = isRoot ? readText(adminKeyFile)?.trim() : undefined
  return key ? { url: await localUrl(readText(gatewayConfigFile)), key } : undefined
}

/** @param config text of gateway.yaml; undefined: the gateway has its default settings */
export async function localUrl(config: string | undefined): Promise<string> {
  const { parse } = await import('../yaml.js')
  const { listen } = ((config === undefined ? undefined : parse(config)) ?? {}) as { listen?: unknown }
  const [, host = '', port] = /^(.*):(\d+)$/.exec(typeof listen === 'string' ? listen : '') ?? []
  if (port === undefined) return defaultLocalUrl
  const local = host === '0.0.0.0' ? '127.0.0.1' : host === '[::]' || host === '::' ? '[::1]' : host
  return `http://${local.includes(':') && !local.startsWith('[') ? `[${local}]` : local}:${port}`
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
