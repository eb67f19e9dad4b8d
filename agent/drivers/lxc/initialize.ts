import { BerthError } from '../../../shared/errors.js'
import { changeRoot } from '../../host/guest-root.js'
import { CommandError } from '../../host/process.js'
import { hashOf } from '../common/login-hash.js'
import { keysOf } from '../common/shadow-field.js'
import type { Login, Machine } from '../contract.js'
import { checkLogin, planFirstBoot, type HashedLogin } from './plan-login.js'

/**
 * Sets host name, hosts, resolv.conf and root's login in the root filesystem of no running guest.
 * @throws {BerthError} `guest_initialize_failed` when the image is no usual Linux file system
 */
export async function initializeGuest(root: string, machine: Machine, login: Login): Promise<void> {
  checkLogin(machine, login)
  try {
    await changeRoot(root, planFirstBoot(machine, await hashLogin(login)))
  } catch (cause) {
    if (!(cause instanceof CommandError)) throw cause
    throw new BerthError(
      'internal',
      'guest_initialize_failed',
      `set-up of the guest's files: ${said(cause)}`,
      {
        cause,
      },
    )
  }
}

async function hashLogin(login: Login): Promise<HashedLogin> {
  const passwordHash = await hashOf(login)
  return { keys: keysOf(login), ...(passwordHash === undefined ? {} : { passwordHash }) }
}

function said({ stderr, message }: CommandError): string {
  return (stderr.trim() || message).slice(0, 300)
}
