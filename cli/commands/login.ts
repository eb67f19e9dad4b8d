import type { Connection } from '../../client/index.js'
import { configFile, readContexts, writeContexts } from '../contexts/config-file.js'
import { loginSource } from '../gateway-source.js'
import { parseUrl } from '../contexts/connection.js'
import { usageError } from '../errors.js'
import { readSecret } from '../input/secret.js'
import { openClient } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export interface LoginOptions {
  readonly keyFile?: string
  /** True if the program asks for a key, in place of a login in a browser. */
  readonly withKey?: true
  /** True if the program opens a browser; false if the user opens the page. */
  readonly browser: boolean
  readonly name?: string
  readonly caFile?: string
}

/**
 * Gets an API key by a login in a browser, from the user or from a file, and checks it with a request. Stores the
 * gateway and the key as the current context.
 */
export async function logIn(written: string, options: LoginOptions, surroundings: Surroundings): Promise<void> {
  const url = parseUrl(written)
  const ca = options.caFile === undefined ? undefined : surroundings.readFile(options.caFile)
  if (/^http:\/\/(?!127\.|localhost[:/]|\[::1\])/.test(`${url}/`))
    surroundings.writeError('Warning: http:// sends the key unencrypted.\n')
  const gateway = { url, ...(ca !== undefined && { ca }) }
  const [path, name] = [configFile(surroundings.env, surroundings.home), options.name ?? new URL(url).host]
  await readContexts(path) // fails before a key is created if the file cannot be used
  const created = await getByBrowser(gateway, options, surroundings)
  const connection: Connection = { ...gateway, key: created ?? (await readKey(url, options, surroundings)) }
  if (created !== undefined) await store(path, name, connection) // the gateway delivers this key only once
  const { body } = await openClient({ ...connection, source: loginSource }, surroundings).send({
    method: 'GET',
    path: '/version',
  })
  const { version } = body.data as { version: string }
  if (created === undefined) await store(path, name, connection)
  surroundings.writeOut(`Logged in to ${url} (Berth ${version}). The context ${name} is stored in ${path}.\n`)
}

async function store(path: string, name: string, connection: Connection): Promise<void> {
  const { contexts } = await readContexts(path)
  await writeContexts(path, { current: name, contexts: { ...contexts, [name]: connection } })
}

/** Returns a key by a login in a browser. `undefined`: the user provides a key, or the gateway offers no such login. */
async function getByBrowser(
  gateway: Omit<Connection, 'key'>,
  { keyFile, withKey, browser }: LoginOptions,
  surroundings: Surroundings,
): Promise<string | undefined> {
  if (keyFile !== undefined || withKey) return undefined
  // Without a terminal, the standard input contains the key, unless `--no-browser` requests a login.
  if (browser && !process.stdin.isTTY) return undefined
  const { logInByBrowser } = await import('../login/browser-login.js')
  return logInByBrowser({ gateway, opensBrowser: browser, surroundings })
}

async function readKey(url: string, { keyFile }: LoginOptions, surroundings: Surroundings): Promise<string> {
  if (keyFile === undefined && surroundings.hasProgress)
    surroundings.writeError(`Create an API key in the panel, if you have none: ${url}/#/api\n`)
  const text = keyFile === undefined ? await readSecret('API key: ', surroundings) : surroundings.readFile(keyFile)
  const key = text.trim()
  if (key === '') throw usageError('the key is empty')
  if (!/^[\x21-\x7e]+$/.test(key)) throw usageError('the key must be one word')
  return key
}
