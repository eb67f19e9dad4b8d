import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { BerthError } from '../../shared/errors.js'

/** Files that the gateway creates first, in this order. */
const needed = ['pki/authority.pem', 'secret']
const storeFiles = 'redis/appendonlydir'
const adminKey = 'admin-key.json'

/** Directory, in the state directory, with the state that a gateway will have after it has joined a fleet. */
export const joiningDirectory = 'joining'
/** This file exists while the state is being replaced. It lists the names of the new state's files and directories. */
export const joinMarker = `${joiningDirectory}/changing`

export const isJoinInterrupted = (directory: string): boolean => existsSync(join(directory, joinMarker))

/** Throws an error while `berth-gateway join` replaces the state. @throws {BerthError} `join_interrupted` */
export function refuseInterruptedJoin(directory: string): void {
  if (!isJoinInterrupted(directory)) return
  throw new BerthError(
    'internal',
    'join_interrupted',
    'the command that makes this machine a gateway of a fleet was interrupted: run berth-gateway join again with the same token',
  )
}

/**
 * Throws an error if a file of an earlier start is lost. New files would not help, because hosts reject a new
 * authority, and a new secret cannot decrypt stored data.
 * @throws {BerthError} `state_missing`, `join_interrupted`
 */
export function checkStateComplete(directory: string): void {
  refuseInterruptedJoin(directory)
  const has = (name: string): boolean => existsSync(join(directory, name))
  const missing = needed.find((name) => !has(name))
  // The administrator's key can be the only file before the first start. No file is lost in this case.
  const wasComplete = has(storeFiles) || (needed.some(has) && has(adminKey))
  if (missing === undefined || !wasComplete) return
  throw new BerthError(
    'internal',
    'state_missing',
    `${join(directory, missing)} is missing: restore ${directory} from a backup, or start again without the hosts ` +
      `and keys of this gateway: mv '${directory}' '${directory}.damaged'`,
  )
}
