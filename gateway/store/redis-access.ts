import { readFile } from 'node:fs/promises'
import { ConfigError } from '../../shared/errors.js'

export interface RedisAddress {
  readonly host: string
  readonly port: number
}

/** How clients log in to Redis servers or Sentinels, and how clients check the servers' certificates. */
export interface RedisAccess {
  /** User of the access control list. "": the default user. */
  readonly username: string
  /** Path of a file with the password. "": no password. */
  readonly passwordFile: string
  readonly tls: RedisTls | undefined
}

/** Paths of PEM files. "": the default certificate authorities, and no client certificate. */
export interface RedisTls {
  readonly caFile: string
  readonly certificateFile: string
  readonly keyFile: string
}

/** Options for a client of node-redis, without the address. */
export interface AccessOptions {
  readonly username?: string
  readonly password?: string
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
}

/**
 * Reads the files. Each connection reads them again, so that a changed password or certificate needs no restart.
 * @throws {ConfigError} if a file cannot be read
 */
export async function readAccess({ username, passwordFile, tls }: RedisAccess): Promise<AccessOptions> {
  const password = await readText(passwordFile)
  return {
    ...(username !== '' && { username }),
    ...(password !== undefined && { password: password.replace(/\r?\n$/, '') }),
    ...(tls && { tls: await readTls(tls) }),
  }
}

async function readTls({ caFile, certificateFile, keyFile }: RedisTls): Promise<NonNullable<AccessOptions['tls']>> {
  const [ca, cert, key] = await Promise.all([caFile, certificateFile, keyFile].map(readText))
  return { ...(ca !== undefined && { ca }), ...(cert !== undefined && { cert }), ...(key !== undefined && { key }) }
}

async function readText(path: string): Promise<string | undefined> {
  if (path === '') return undefined
  return readFile(path, 'utf8').catch((cause: unknown) => {
    throw new ConfigError(`cannot read ${path}`, { cause })
  })
}
