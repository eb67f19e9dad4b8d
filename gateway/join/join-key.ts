import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createFileAtomic } from '../../shared/files.js'
import { newKeyPem, publicKeyDer } from '../pki/authority.js'

/**
 * Reads the key of the join endpoint, or creates it. The key never changes, because commands for new hosts contain a
 * pin of it. If the key is lost, a new key is created, and earlier commands fail.
 * @param path path of a file with mode 0600
 */
export async function ensureJoinKey(path: string): Promise<string> {
  // An existing file is not written again, because the write would fail on a full disk.
  if (!existsSync(path)) await createFileAtomic(path, newKeyPem(), 0o600)
  return readFile(path, 'utf8')
}

/** Digest of the public key in the form that curl's option --pinnedpubkey expects. */
export function pinOf(privateKeyPem: string): string {
  return `sha256//${createHash('sha256').update(publicKeyDer(privateKeyPem)).digest('base64')}`
}
