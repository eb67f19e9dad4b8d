import { execFileSync } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync, readSync, truncateSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import { installBusyboxImage } from './busybox-image.js'
import { kvm } from './guest-kinds.js'

/** Guests for the operation matrix of each driver. Their disks show from which template they were made. */
export interface MatrixGuest {
  /** The templates for the creation and for a reinstall. */
  readonly templates: readonly [string, string]
  readonly spec: Partial<GuestSpec>
  installImage(pool: string, templateId: string): Promise<void>
  readTemplate(volume: string): string
  /** Changes the template id that is written on the disk of a volume. */
  writeTemplate(volume: string, templateId: string): void
  /** Returns the crypt(5) hash of root's password. */
  readPasswordHash(volume: string): string
}

export const matrixContainer: MatrixGuest = {
  templates: ['debian-12', 'debian-13'],
  spec: {},
  installImage: installBusyboxImage,
  readTemplate: (volume) => readFileSync(join(volume, 'etc/template'), 'utf8'),
  writeTemplate: (volume, templateId) => writeAt(join(volume, 'etc/template'), 0, templateId),
  readPasswordHash: (volume) => /^root:([^:]*):/m.exec(readFileSync(join(volume, 'etc/shadow'), 'utf8'))?.[1] ?? '',
}

/** A disk with which a virtual machine does nothing, because its boot sector halts the CPU. */
const idle = { bytes: 1024 ** 2, code: 'faf4ebfd', sign: '55aa', signAt: 510, nameAt: 512, nameBytes: 32 }

export const matrixMachine: MatrixGuest = {
  templates: ['debian-12-kvm', 'debian-13-kvm'],
  spec: kvm.spec,
  installImage: async (pool, templateId) => installIdleImage(pool, templateId),
  readTemplate: (volume) => readAt(join(volume, 'disk.raw'), idle.nameAt, idle.nameBytes),
  writeTemplate: (volume, templateId) => writeAt(join(volume, 'disk.raw'), idle.nameAt, nameOf(templateId)),
  readPasswordHash: (volume) => {
    const { passwordHash, reset } = JSON.parse(readFileSync(join(volume, 'instance.json'), 'utf8')) as {
      passwordHash?: string
      reset?: { passwordHash: string }
    }
    return reset?.passwordHash ?? passwordHash ?? ''
  },
}

/** Installs a disk whose guest uses no CPU time. It is meant for tests of the agent, not of a guest's system. */
export function installIdleImage(pool: string, templateId: string): void {
  const path = join(pool, 'images', templateId)
  if (existsSync(path)) return
  execFileSync('btrfs', ['-q', 'subvolume', 'create', path])
  execFileSync('chattr', ['+C', path])
  const disk = join(path, 'disk.raw')
  closeSync(openSync(disk, 'w', 0o600))
  truncateSync(disk, idle.bytes)
  writeAt(disk, 0, Buffer.from(idle.code, 'hex'))
  writeAt(disk, idle.signAt, Buffer.from(idle.sign, 'hex'))
  writeAt(disk, idle.nameAt, nameOf(templateId))
  execFileSync('btrfs', ['property', 'set', path, 'ro', 'true'])
}

const nameOf = (templateId: string): string => templateId.padEnd(idle.nameBytes, '\0')

function readAt(path: string, at: number, bytes: number): string {
  const file = openSync(path, 'r')
  const buffer = Buffer.alloc(bytes)
  readSync(file, buffer, 0, bytes, at)
  closeSync(file)
  return buffer.toString('utf8').replaceAll('\0', '')
}

function writeAt(path: string, at: number, content: string | Buffer): void {
  const file = openSync(path, 'r+')
  writeSync(file, Buffer.from(content), 0, undefined, at)
  closeSync(file)
}
