import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from '../process/process.js'

export const hostKeyTypes = ['ed25519', 'ecdsa', 'rsa'] as const
export type HostKeyType = (typeof hostKeyTypes)[number]

/** Creates a host key for an SSH server, in the format of ssh-keygen(1). @throws {CommandError} */
export async function makeHostKey(type: HostKeyType): Promise<{ privateKey: string; publicKey: string }> {
  const directory = await mkdtemp(join(tmpdir(), 'berth-key-')) // mkdtemp creates directories with mode 0700
  try {
    const path = join(directory, 'key')
    await run('ssh-keygen', ['-q', '-t', type, '-N', '', '-C', '', '-f', path])
    const [privateKey, publicKey] = [await readFile(path, 'utf8'), await readFile(`${path}.pub`, 'utf8')]
    return { privateKey, publicKey }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}
