import { hashPassword } from '../../host/password-hash.js'
import type { Login } from '../contract.js'

/** The login with its password's hash. */
export async function withHash(login: Login): Promise<Login> {
  const passwordHash = await hashOf(login)
  return passwordHash === undefined ? login : { ...login, passwordHash }
}

/** The hash that the login has, or a new one. @returns undefined: it has no password */
export async function hashOf({ password, passwordHash }: Login): Promise<string | undefined> {
  return passwordHash ?? (password === undefined ? undefined : hashPassword(password))
}
