import { randomBytes } from 'node:crypto'
import { runPerl } from '../process/process.js'

/**
 * SHA-512 crypt(5) hash of a password, with a random salt, for /etc/shadow. The password is passed on standard input.
 * @param password without NUL
 */
export async function hashPassword(password: string): Promise<string> {
  const salt = `$6$${randomBytes(12).toString('base64').replaceAll('+', '.')}$`
  const { stdout } = await runPerl('hash-password', [salt], { stdin: password })
  return stdout
}
