import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { link, mkdir, open as openFile, readFile, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { BerthError } from './errors.js'
import { syncDirectory } from './files.js'

/*
 * This module encrypts secrets that must be shown again later, with AES-256-GCM and a random nonce. NIST SP 800-38D
 * allows 2^32 texts per key, which no installation reaches.
 */

const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16
const version = 1

/**
 * @param key 32 bytes from `readOrCreateKey`
 * @param context name of the text's owner. `open` needs the same context, so that a text cannot be used for another
 * owner.
 * @returns base64url
 */
export function seal(key: Buffer, plaintext: string, context = ''): string {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
  cipher.setAAD(Buffer.from(context))
  const body = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final()])
  return Buffer.concat([Buffer.of(version), nonce, cipher.getAuthTag(), body]).toString('base64url')
}

/** @throws {BerthError} `internal_error` if the key or the context is wrong, or if the text was changed */
export function open(key: Buffer, sealed: string, context = ''): string {
  const bytes = Buffer.from(sealed, 'base64url')
  const [nonceEnd, tagEnd] = [1 + nonceBytes, 1 + nonceBytes + tagBytes]
  try {
    if (bytes[0] !== version || bytes.length < tagEnd) throw new Error('the text is not encrypted by Berth')
    const nonce = bytes.subarray(1, nonceEnd)
    const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
    decipher.setAAD(Buffer.from(context))
    decipher.setAuthTag(bytes.subarray(nonceEnd, tagEnd))
    return decipher.update(bytes.subarray(tagEnd), undefined, 'utf8') + decipher.final('utf8')
  } catch (cause) {
    throw new BerthError('internal', 'internal_error', 'a stored secret cannot be decrypted', { cause })
  }
}

/**
 * Reads the key in a file, or creates it. A new key has mode 0600 and is on disk before it is used. Concurrent callers
 * get the same key.
 * @throws {BerthError} `secret_damaged` if the file does not contain a key
 * @throws {Error} if the file cannot be read or created
 */
export async function readOrCreateKey(path: string): Promise<Buffer> {
  return (await readKey(path)) ?? (await createKey(path))
}

async function readKey(path: string): Promise<Buffer | undefined> {
  const text = await readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return undefined
    throw cause
  })
  if (text === undefined) return undefined
  const key = Buffer.from(text.trim(), 'base64url')
  if (key.length !== keyBytes || !['', '\n'].includes(text.replace(key.toString('base64url'), '')))
    throw new BerthError(
      'internal',
      'secret_damaged',
      `${path} is damaged: restore it from a backup of this directory, or start with a new secret, which cannot ` +
        `decrypt the stored passwords: mv '${path}' '${path}.damaged'`,
    )
  return key
}

/** Writes a temporary file and links it to its final name. If another process created the key first, link(2) fails. */
async function createKey(path: string): Promise<Buffer> {
  const directory = dirname(path)
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const temporary = `${path}.${process.pid}.${randomBytes(4).toString('hex')}.tmp`
  try {
    const file = await openFile(temporary, 'wx', 0o600)
    try {
      await file.writeFile(`${randomBytes(keyBytes).toString('base64url')}\n`)
      await file.sync()
    } finally {
      await file.close()
    }
    await link(temporary, path).catch((cause: NodeJS.ErrnoException) => {
      if (cause.code !== 'EEXIST') throw cause
    })
    await syncDirectory(directory)
  } finally {
    await rm(temporary, { force: true })
  }
  const key = await readKey(path)
  if (!key) throw new Error(`${path}: disappeared while it was created`)
  return key
}
