import { run } from './process.js'

/**
 * A password's SHA-512 crypt(5) hash with a salt of its own, for an /etc/shadow. It reaches openssl(1) by
 * standard input. At most 256 bytes: openssl cuts what is longer.
 */
export async function hashPassword(password: string): Promise<string> {
  const { stdout } = await run('openssl', ['passwd', '-6', '-stdin'], { stdin: `${password}\n` })
  return stdout.trim()
}
