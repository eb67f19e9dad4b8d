import type { CurrentLogin, Login } from '../machine.js'

/** Value of root's field (shadow(5)) that no password matches. Root can then only log in with keys. */
export const noPassword = '*'

/** A non-empty field of the shadow file: any crypt(5) hash, locked or not. An empty field would let anybody log in. */
export const shadowFieldPattern = /^[!*./0-9A-Za-z$,=+_-]{1,255}$/

/** Returns the lines for `authorized_keys`. */
export function keysOf({ publicKey, authorizedKeys }: Login): readonly string[] {
  return authorizedKeys ?? (publicKey === undefined ? [] : [publicKey])
}

const mostKeys = 1000
const keyLine = /^[^\p{Cc}\u2028\u2029]{1,16384}$/u

/** Parses the login found on a guest's disk, which is untrusted. Omits lines that sshd would skip. */
export function parseCurrentLogin(shadowField: string, authorizedKeys: string): CurrentLogin {
  const lines = authorizedKeys.split('\n').map((line) => line.trim())
  return {
    passwordHash: shadowFieldPattern.test(shadowField) ? shadowField : noPassword,
    authorizedKeys: lines.filter((line) => keyLine.test(line) && !line.startsWith('#')).slice(0, mostKeys),
  }
}
