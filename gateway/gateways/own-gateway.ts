import { createPrivateKey, generateKeyPairSync, randomBytes, type KeyObject } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import { createFileAtomic, writeFileAtomic } from '../../shared/files.js'

/** Identity of a gateway in the list of gateways. */
export interface OwnGateway {
  readonly id: string
  readonly name: string
}

/** File with the identity, in the state directory. */
export const ownGatewayFile = 'gateway.json'

/** Reads the identity of this gateway, or creates it. */
export async function ensureOwnGateway(stateDir: string): Promise<OwnGateway> {
  const path = join(stateDir, ownGatewayFile)
  const found = await findOwnGateway(stateDir)
  if (found) return found
  await createFileAtomic(path, JSON.stringify({ id: newGatewayId(), name: machineName() }))
  return JSON.parse(await readFile(path, 'utf8')) as OwnGateway
}

/** @returns undefined if the server has no gateway, or a gateway of an older version */
export async function findOwnGateway(stateDir: string): Promise<OwnGateway | undefined> {
  const text = await readFile(join(stateDir, ownGatewayFile), 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return undefined
    throw cause
  })
  return text === undefined ? undefined : (JSON.parse(text) as OwnGateway)
}

export async function writeOwnGateway(directory: string, own: OwnGateway): Promise<void> {
  await writeFileAtomic(join(directory, ownGatewayFile), JSON.stringify(own))
}

/**
 * Reads or creates the X25519 key with which this gateway decrypts secrets of other gateways.
 * @throws {BerthError} `secret_damaged`
 */
export async function ensureGatewayKey(stateDir: string): Promise<KeyObject> {
  const path = join(stateDir, 'gateway-key.pem')
  const { privateKey } = generateKeyPairSync('x25519')
  if (!existsSync(path)) await createFileAtomic(path, privateKey.export({ type: 'pkcs8', format: 'pem' }).toString())
  const pem = await readFile(path, 'utf8')
  try {
    return createPrivateKey(pem)
  } catch (cause) {
    const message = `${path} is damaged: delete it, and the gateway creates another key`
    throw new BerthError('internal', 'secret_damaged', message, { cause })
  }
}

export const newGatewayId = (): string => `gw-${randomBytes(4).toString('hex')}`

/** Returns the name of this server in the form of a gateway's name. */
export function machineName(machine = hostname()): string {
  return (
    machine
      .split('.')[0]!
      .replaceAll(/[^A-Za-z0-9-]/g, '')
      .replace(/^-+/, '')
      .slice(0, 50) || 'gateway'
  )
}
