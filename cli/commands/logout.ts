import { RefusedError } from '../../client/index.js'
import { configFile, readContexts } from '../contexts/config-file.js'
import { checkKey, getContext, type FoundConnection } from '../contexts/connection.js'
import { usageError } from '../errors.js'
import { openClient, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'
import { removeContext } from './context.js'

/** Removes a context. Deletes its key from the gateway, if the key was created by a login in a browser. */
export async function logOut({ context }: GlobalOptions, surroundings: Surroundings): Promise<void> {
  const { env, home, writeOut } = surroundings
  const contexts = await readContexts(configFile(env, home))
  const name = context ?? (env['BERTH_CONTEXT'] || contexts.current)
  if (name === '') throw usageError('no context is chosen', 'list the contexts: berth context list')
  const source = { address: { context: name }, hasOwnKey: false }
  const connection = { ...checkKey(getContext(contexts, name), `context ${name}`), source }
  const isDeleted = await deleteKey(connection, surroundings)
  await removeContext(name, surroundings)
  const key = isDeleted ? 'its API key was deleted' : 'its API key still exists'
  writeOut(`Logged out. The context ${name} was removed, and ${key}.\n`)
}

/**
 * @returns true if the key no longer exists. False if no login in a browser created the key, or if it is an
 * administrator's last key: the key then remains.
 * @throws an error of the client if the gateway cannot be reached
 */
async function deleteKey(connection: FoundConnection, surroundings: Surroundings): Promise<boolean> {
  try {
    await openClient(connection, surroundings).send({ method: 'POST', path: '/cli-logins/end' })
    return true
  } catch (cause) {
    if (!(cause instanceof RefusedError)) throw cause
    if (cause.code === 'unauthorized') return true
    if ([401, 403, 404, 405, 409, 501].includes(cause.status)) return false
    throw cause
  }
}
