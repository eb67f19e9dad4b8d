import { randomBytes } from 'node:crypto'
import { runPerl } from '../process/process.js'

/**
 * Returns the SHA-512 crypt(5) hash of a password, with a random salt, for /etc/shadow. Passes the password on standard
 * input.
 * @param password text without NUL
 */
export async function hashPassword(password: string): Promise<string> {
  const salt = `$6$${randomBytes(12).toString('base64').replaceAll('+', '.')}$`
  const { stdout } = await runPerl('hash-password', [salt], { stdin: password })
  return stdout
}
