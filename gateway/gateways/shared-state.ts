import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { conflict } from '../../shared/errors.js'
import { writeFileAtomic } from '../../shared/files.js'
import type { GatewayConfig } from '../config.js'
import { nextAuthorityFile } from '../pki/fleet-authority.js'
import { externalServerOf, type RedisChoice } from '../store/redis-settings.js'

/** Keys in the section `redis` whose values are paths of files. A joining gateway gets copies of these files. */
const fileKeys = ['password_file', 'sentinel_password_file', 'ca_file', 'certificate_file', 'key_file'] as const

/** Files of the state directory that all gateways of a fleet must have. */
const sharedFiles = ['pki/authority.pem', 'pki/join-key.pem', 'secret'] as const

/** Files that gateways have only during a rotation of the CA: the next CA. */
const optionalFiles = [`pki/${nextAuthorityFile}`] as const

/** Directory, in the state directory, for the settings of the store that the gateway received when it joined. */
const storeDirectory = 'store'
export const storeSettings = `${storeDirectory}/settings.json`

type RedisSettings = Omit<GatewayConfig['redis'], 'program'>

/** Secrets and settings of the store that all gateways of a fleet have in common. A joining gateway receives them. */
export interface SharedState {
  /** Content of each of the shared files. */
  readonly files: Readonly<Record<string, string>>
  readonly redis: RedisSettings
  /** Contents of the files to which settings of the store refer, by key of the setting. */
  readonly redisFiles: Readonly<Record<string, string>>
}

/** @throws {BerthError} `store_not_shared` if only this server can reach the store */
export function checkStoreShared(choice: RedisChoice): void {
  if (externalServerOf(choice) !== undefined) return
  throw conflict(
    'store_not_shared',
    'the store of this gateway is a private Redis server, which no other machine can reach: first move the data to a Redis server ' +
      'of your own (docs/gateways.md)',
  )
}

export async function readSharedState(stateDir: string, { redis, redisUrl }: RedisChoice): Promise<SharedState> {
  const { program: _program, ...settings } = redis
  const present = optionalFiles.filter((name) => existsSync(join(stateDir, name)))
  const files = await readAll([...sharedFiles, ...present].map((name) => [name, join(stateDir, name)]))
  const named = fileKeys.filter((key) => redis[key] !== '')
  const redisFiles = await readAll(named.map((key) => [key, redis[key]]))
  const server = redisUrl === '' ? {} : { url: redisUrl, sentinels: [] }
  return { files, redis: { ...settings, ...server }, redisFiles }
}

async function readAll(paths: readonly (readonly [name: string, path: string])[]): Promise<Record<string, string>> {
  const contents = paths.map(async ([name, path]) => [name, await readFile(path, 'utf8')] as const)
  return Object.fromEntries(await Promise.all(contents))
}

/** Writes the shared state into a directory. Paths in the settings of the store are relative to this directory. */
export async function writeSharedState(directory: string, state: SharedState): Promise<void> {
  for (const name of sharedFiles) await writeFileAtomic(join(directory, name), state.files[name] ?? '')
  for (const name of optionalFiles)
    if (state.files[name] !== undefined) await writeFileAtomic(join(directory, name), state.files[name])
  const named = fileKeys.filter((key) => state.redisFiles[key] !== undefined)
  for (const key of named) await writeFileAtomic(join(directory, storeDirectory, key), state.redisFiles[key] ?? '')
  const paths = Object.fromEntries(named.map((key) => [key, join(storeDirectory, key)]))
  await writeFileAtomic(join(directory, storeSettings), JSON.stringify({ ...state.redis, ...paths }, null, 2))
}

/** Returns settings that `writeSharedState` has written, with absolute paths of files. */
export function resolveFiles(stateDir: string, settings: Partial<RedisSettings>): Partial<RedisSettings> {
  const named = fileKeys.filter((key) => settings[key])
  const paths = named.map((key) => [key, resolve(stateDir, settings[key] ?? '')] as const)
  return { ...settings, ...Object.fromEntries(paths) }
}
