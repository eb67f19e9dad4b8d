import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createFileAtomic } from '../../shared/files.js'
import { newKeyPem, publicKeyDer } from '../pki/authority.js'

/**
 * Reads the key of the join endpoint, or creates it. Unlike the gateway's other keys it stays the same: commands for new
 * hosts pin it. A lost key is replaced; earlier commands do not work any more.
 * @param path of a file with mode 0600
 */
export async function ensureJoinKey(path: string): Promise<string> {
  // A full disk has no space for a new file, and none is needed.
  if (!existsSync(path)) await createFileAtomic(path, newKeyPem(), 0o600)
  return readFile(path, 'utf8')
}

/** The public key as curl's option --pinnedpubkey expects it. */
export function pinOf(privateKeyPem: string): string {
  return `sha256//${createHash('sha256').update(publicKeyDer(privateKeyPem)).digest('base64')}`
}
