import type { CurrentLogin, Login } from '../contract.js'

/** No password gives this hash: root logs in by keys only (shadow(5)). */
export const noPassword = '*'

/** A field of the shadow file that is not empty, with which anybody would log in: any hash of crypt(5), locked or not. */
export const shadowFieldPattern = /^[!*./0-9A-Za-z$,=+_-]{1,255}$/

/** Lines for `authorized_keys`. */
export function keysOf({ publicKey, authorizedKeys }: Login): readonly string[] {
  return authorizedKeys ?? (publicKey === undefined ? [] : [publicKey])
}

const mostKeys = 1000
const keyLine = /^[^\p{Cc}\u2028\u2029]{1,16384}$/u

/** Makes a login of what a guest's disk holds, which may be anything: lines that sshd would skip are left out. */
export function parseCurrentLogin(shadowField: string, authorizedKeys: string): CurrentLogin {
  const lines = authorizedKeys.split('\n').map((line) => line.trim())
  return {
    passwordHash: shadowFieldPattern.test(shadowField) ? shadowField : noPassword,
    authorizedKeys: lines.filter((line) => keyLine.test(line) && !line.startsWith('#')).slice(0, mostKeys),
  }
}
