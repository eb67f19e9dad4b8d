import type { Connection } from '../../client/index.js'
import { configFile, readContexts, writeContexts } from '../contexts/config-file.js'
import { parseUrl } from '../contexts/connection.js'
import { usageError } from '../errors.js'
import { readSecret } from '../input/secret.js'
import { openClient } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export interface LoginOptions {
  readonly keyFile?: string
  readonly name?: string
  readonly caFile?: string
}

/** Checks an API key with a request. Stores the gateway and the key as the current context. */
export async function logIn(written: string, options: LoginOptions, surroundings: Surroundings): Promise<void> {
  const url = parseUrl(written)
  const ca = options.caFile === undefined ? undefined : surroundings.readFile(options.caFile)
  if (/^http:\/\/(?!127\.|localhost[:/]|\[::1\])/.test(`${url}/`))
    surroundings.writeError('Warning: http:// sends the key unencrypted.\n')
  const key = await readKey(url, options, surroundings)
  const connection: Connection = { url, key, ...(ca !== undefined && { ca }) }
  const { body } = await openClient(connection, surroundings).send({ method: 'GET', path: '/version' })
  const { version } = body.data as { version: string }
  const name = options.name ?? new URL(url).host
  const path = configFile(surroundings.env, surroundings.home)
  const { contexts } = await readContexts(path)
  await writeContexts(path, { current: name, contexts: { ...contexts, [name]: connection } })
  surroundings.writeOut(`Logged in to ${url} (Berth ${version}). The context ${name} is stored in ${path}.\n`)
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
