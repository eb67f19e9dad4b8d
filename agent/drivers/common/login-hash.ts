import { hashPassword } from '../../host/guest/password-hash.js'
import type { Login } from '../contract.js'

/** The login with its password's hash. */
export async function withHash(login: Login): Promise<Login> {
  const passwordHash = await loginHashOf(login)
  return passwordHash === undefined ? login : { ...login, passwordHash }
}

/**
 * The password hash of the login; a new one if it has only the password.
 * @returns undefined: the login has no password
 */
export async function loginHashOf({ password, passwordHash }: Login): Promise<string | undefined> {
  return passwordHash ?? (password === undefined ? undefined : hashPassword(password))
}
