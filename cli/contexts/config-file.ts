import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { writeFileAtomic } from '../../shared/files.js'
import type { Connection } from '../../client/index.js'
import { CliError, exitCodes, fileError, usageError } from '../errors.js'

/* The file with the contexts: the gateways that the user has logged in to. */

export interface Contexts {
  /** Name of the context that commands use; empty: no context was chosen. */
  readonly current: string
  readonly contexts: Readonly<Record<string, Connection>>
}

export type Environment = Readonly<Record<string, string | undefined>>

export function configFile(env: Environment, home: string): string {
  return env['BERTH_CONFIG'] || join(env['XDG_CONFIG_HOME'] || join(home, '.config'), 'berth/config.yaml')
}

/** @throws {CliError} `usage` if the file is damaged or other users can read it */
export async function readContexts(path: string): Promise<Contexts> {
  const text = readOwnFile(path)
  if (text === undefined) return { current: '', contexts: {} }
  const { parse } = await import('../yaml.js')
  try {
    return checkContexts(parse(text))
  } catch (cause) {
    throw usageError(`${path}: ${(cause as Error).message}`, `correct the file, or delete it and log in again`)
  }
}

export async function writeContexts(path: string, contexts: Contexts): Promise<void> {
  const { stringify } = await import('../yaml.js')
  await writeFileAtomic(path, stringify(contexts), 0o600)
}

function readOwnFile(path: string): string | undefined {
  try {
    if ((statSync(path).mode & 0o077) !== 0)
      throw new CliError(
        exitCodes.usage,
        `${path}: other users can read the API keys in this file`,
        `run: chmod 600 ${path}`,
      )
    return readFileSync(path, 'utf8')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw cause instanceof CliError ? cause : fileError(path, cause)
  }
}

export function checkContexts(value: unknown): Contexts {
  const { current = '', contexts = {} } = (value ?? {}) as { current?: unknown; contexts?: unknown }
  if (typeof current !== 'string') throw new TypeError('current: must be the name of a context')
  if (typeof contexts !== 'object' || contexts === null) throw new TypeError('contexts: must be a list of contexts')
  const all = Object.entries(contexts as Record<string, unknown>).map(([name, one]) => [name, checkContext(name, one)])
  return { current, contexts: Object.fromEntries(all) as Record<string, Connection> }
}

function checkContext(name: string, value: unknown): Connection {
  const { url, key, ca } = (value ?? {}) as { url?: unknown; key?: unknown; ca?: unknown }
  if (typeof url !== 'string' || typeof key !== 'string') throw new TypeError(`${name}: must have a url and a key`)
  if (ca !== undefined && typeof ca !== 'string') throw new TypeError(`${name}: ca must be a text`)
  return { url, key, ...(ca !== undefined && { ca }) }
}
