import { randomBytes } from 'node:crypto'
import { basename } from 'node:path'
import { BerthError } from '../../../shared/errors.js'
import { changeRoot, listExisting, type RootChange } from '../../host/guest/guest-root.js'
import { CommandError } from '../../host/process/process.js'
import { hostKeyTypes, makeHostKey, type HostKeyType } from '../../host/guest/ssh-host-key.js'
import { loginHashOf } from '../common/login-hash.js'
import { keysOf } from '../common/shadow-field.js'
import type { Login, Machine, VolumeCopy } from '../machine.js'
import { planCopy, type HostKeys, type NewIdentity } from './plan-copy.js'
import { checkLogin, planFirstBoot, planHostname, type HashedLogin } from './plan-login.js'

/**
 * Sets host name, /etc/hosts, /etc/resolv.conf and root's login in a root filesystem that no running guest uses.
 * @throws {BerthError} `guest_initialize_failed` if the image is not a usual Linux file system
 */
export async function initializeGuest(root: string, machine: Machine, login: Login): Promise<void> {
  checkLogin(machine, login)
  await change(root, planFirstBoot(machine, await hashLogin(login)))
}

/** Sets the host name in the files of a running or stopped guest. @throws {BerthError} `guest_initialize_failed` */
export async function setHostname(machine: Machine): Promise<void> {
  await change(machine.volume, planHostname(machine))
}

/**
 * Gives a copy of another guest's root filesystem its own identity, so that both guests can run at the same time.
 * @throws {BerthError} `guest_initialize_failed` if the copy is not a usual Linux file system
 */
export async function adoptGuest(
  { volume: root, resolvers, keepsIdentity = false }: VolumeCopy,
  machine: Machine,
  login: Login,
): Promise<void> {
  checkLogin(machine, login)
  const identity = keepsIdentity ? undefined : await makeIdentity(root)
  const original = { identity, ...(resolvers && { resolvers }) }
  await change(root, planCopy(machine, await hashLogin(login), original))
}

async function makeIdentity(root: string): Promise<NewIdentity> {
  return { machineId: randomBytes(16).toString('hex'), hostKeys: await makeHostKeys(root) }
}

/** Creates SSH host keys of the same types as those in the copied root filesystem. */
async function makeHostKeys(root: string): Promise<HostKeys> {
  const existing = await listExisting(root, hostKeyTypes.map(pathOfKey))
  const keys: Record<string, HostKeys[string]> = {}
  for (const type of hostKeyTypes)
    if (existing.includes(pathOfKey(type))) keys[basename(pathOfKey(type))] = await makeHostKey(type)
  return keys
}

function pathOfKey(type: HostKeyType): string {
  return `etc/ssh/ssh_host_${type}_key`
}

async function change(root: string, changes: readonly RootChange[]): Promise<void> {
  try {
    await changeRoot(root, changes)
  } catch (cause) {
    if (!(cause instanceof CommandError)) throw cause
    throw new BerthError(
      'internal',
      'guest_initialize_failed',
      `the files of the guest could not be set up: ${said(cause)}`,
      {
        cause,
      },
    )
  }
}

async function hashLogin(login: Login): Promise<HashedLogin> {
  const passwordHash = await loginHashOf(login)
  return { keys: keysOf(login), ...(passwordHash === undefined ? {} : { passwordHash }) }
}

function said({ stderr, message }: CommandError): string {
  return (stderr.trim() || message).slice(0, 300)
}
