import { hashPassword } from '../../host/guest/password-hash.js'
import type { Login } from '../machine.js'

/** Returns the login together with its password's hash. */
export async function withHash(login: Login): Promise<Login> {
  const passwordHash = await loginHashOf(login)
  return passwordHash === undefined ? login : { ...login, passwordHash }
}

/**
 * Returns the login's password hash, and computes one if the login has only a password.
 * @returns undefined if the login has no password
 */
export async function loginHashOf({ password, passwordHash }: Login): Promise<string | undefined> {
  return passwordHash ?? (password === undefined ? undefined : hashPassword(password))
}
