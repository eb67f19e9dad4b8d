import { randomBytes } from 'node:crypto'
import { runPerl } from './process.js'

/**
 * SHA-512 crypt(5) hash of a password, with a random salt, for /etc/shadow.
 * @param password without NUL
 */
export async function hashPassword(password: string): Promise<string> {
  const salt = `$6$${randomBytes(12).toString('base64').replaceAll('+', '.')}$`
  const { stdout } = await runPerl('print crypt($ARGV[0], $ARGV[1])', [password, salt])
  return stdout
}
