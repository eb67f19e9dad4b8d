import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { lstat, rm, type FileHandle } from 'node:fs/promises'
import { BerthError } from '../../../shared/errors.js'
import { digHoles } from '../../host/disk/dig-holes.js'
import { loginHashOf } from '../common/login-hash.js'
import type { Login } from '../machine.js'
import { replaceFile } from '../common/replace-file.js'
import type { DiskSystem } from './disk-system.js'
import { sealPassword } from './instance-password.js'
import { diskOf, instanceOf } from './paths.js'
import { openPlain, readPlainText } from '../common/plain-file.js'
import type { Instance } from './plan-seed.js'

const gib = 1024 ** 3

/**
 * Grows the guest's disk to at least this size. Never shrinks a disk.
 * @returns true if the disk grew
 * @throws {BerthError} `volume_missing`
 */
export async function growDisk(volume: string, bytes: number): Promise<boolean> {
  const disk = await openDisk(volume)
  try {
    if ((await disk.stat()).size >= bytes) return false
    await disk.truncate(bytes)
    return true
  } finally {
    await disk.close()
  }
}

/**
 * Gives a new disk exactly the requested size.
 * @throws {BerthError} `volume_missing`; `disk_too_small` if the image needs more
 */
export async function fitDisk(volume: string, bytes: number): Promise<void> {
  const disk = await openDisk(volume)
  try {
    const { size } = await disk.stat()
    if (size > bytes) throw new BerthError('conflict', 'disk_too_small', tooSmall(size), { field: 'disk_gb' })
    if (size < bytes) await disk.truncate(bytes)
  } finally {
    await disk.close()
  }
}

function tooSmall(imageBytes: number): string {
  return `disk_gb: the disk of the image needs at least ${Math.ceil(imageBytes / gib)} GB`
}

const trimTimeoutMs = 3_600_000

/**
 * Prepares a disk that was restored from a backup: root becomes its owner, and blocks of zeros become holes.
 * @throws {BerthError} `volume_missing`
 */
export async function trimDisk(volume: string): Promise<void> {
  const disk = await openDisk(volume)
  try {
    await disk.chown(0, 0)
    await disk.chmod(0o600)
    await digHoles(`/proc/${process.pid}/fd/${disk.fd}`, trimTimeoutMs)
  } finally {
    await disk.close()
  }
}

/**
 * Opens the guest's disk, which must be a regular file. The volume can come from a foreign backup. A link or a device
 * in it could lead to files of the host.
 */
async function openDisk(volume: string): Promise<FileHandle> {
  try {
    return await openPlain(diskOf(volume), constants.O_RDWR)
  } catch (cause) {
    throw new BerthError('conflict', 'volume_missing', 'the guest has no disk', { cause })
  }
}

/**
 * Creates the data for the first boot of a disk.
 * @param keyFile path of the host's key that encrypts the password for Windows
 */
export async function makeInstance(login: Login, { os }: Pick<DiskSystem, 'os'>, keyFile: string): Promise<Instance> {
  const { password, publicKey, authorizedKeys, userData } = login
  const told = { ...newInstance(), ...(userData === undefined || userData === '' ? {} : { userData }) }
  if (os === 'windows')
    return password === undefined ? told : { ...told, sealedPassword: await sealPassword(keyFile, told.id, password) }
  const passwordHash = await loginHashOf(login)
  return {
    ...told,
    ...(passwordHash === undefined ? {} : { passwordHash }),
    ...(publicKey === undefined ? {} : { publicKey }),
    ...(authorizedKeys === undefined ? {} : { authorizedKeys }),
  }
}

export async function writeInstance(volume: string, instance: Instance): Promise<void> {
  const path = instanceOf(volume)
  await rm(`${path}.new`, { recursive: true, force: true }) // `replaceFile` would follow a link at this path
  const found = await lstat(path).catch(() => undefined)
  if (found?.isDirectory()) await rm(path, { recursive: true }) // `replaceFile` cannot replace a directory
  await replaceFile(path, `${JSON.stringify(instance)}\n`, 0o600)
}

const mostIdLength = 100
/** Maximum size in bytes of the file with the data for the first boot. A customer's user data and a login need less. */
const mostInstanceBytes = 2 * 1024 * 1024

/**
 * Reads the data for the first boot. If the file is missing or damaged, for example after a restore, returns new data.
 * The system then repeats its first boot.
 */
export async function readInstance(volume: string): Promise<Instance> {
  const text = await readPlainText(instanceOf(volume), mostInstanceBytes)
  return text === undefined ? newInstance() : parseInstance(text)
}

function parseInstance(text: string): Instance {
  try {
    const instance = JSON.parse(text) as Instance
    return typeof instance.id === 'string' && instance.id.length <= mostIdLength ? instance : newInstance()
  } catch {
    return newInstance() // a power loss damaged the file
  }
}

function newInstance(): Instance {
  return { id: `iid-${randomUUID()}` }
}
