import { gzipSync } from 'node:zlib'
import { Header } from 'tar'
import { tarEntry } from '../../../agent/exports/archive-head.js'
import { makeManifest } from '../../../agent/exports/manifest.js'
import { documentDefaults, type GuestRecord } from '../../../agent/guests/record/record.js'
import { manifestName } from '../../../agent/images/sources/container-export.js'
import { stoppedGuest } from './inserted-guest.js'

const record = {
  ...documentDefaults,
  ...stoppedGuest,
  devices: ['tun'],
  labels: { tags: ['web'], note: '', deleteProtected: false },
  statusReason: '',
  revision: 1,
} as unknown as GuestRecord

/** The manifest of an exported container with 256 MiB of memory, the device tun and the tag web. */
export const exportedManifest = makeManifest(record, { nowMs: 0, includeLabels: true })

const mapping = {
  protocol: 'tcp' as const,
  host_ip: '',
  host_port: 20_080,
  host_port_end: 20_080,
  container_port: 80,
  container_port_end: 80,
  description: 'web',
}

/** Compressed files of an archive, without a manifest. */
export const exportedFiles = gzipSync(
  tarEntry('rootfs/etc/passwd', Buffer.from('root:x:0:0::/:/bin/sh\n'), new Date(0)),
)

/** Returns the beginning of an archive, which contains a manifest. @param content the manifest, or any text instead */
export function archiveHead(content: unknown): Buffer {
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  return gzipSync(tarEntry(manifestName, Buffer.from(text), new Date(0)))
}

/** Returns an exported archive. Its container maps the host port 20080. */
export function exportedArchive(name: string): Buffer {
  const guest = { ...exportedManifest.guest, name, port_mappings: [mapping] }
  return Buffer.concat([archiveHead({ ...exportedManifest, guest }), exportedFiles])
}

/** Returns a symbolic link as an entry of a tar archive that has no end yet. */
export function tarSymlink(path: string, linkpath: string): Buffer {
  return headerOf({ path, linkpath, mode: 0o777, size: 0, type: 'SymbolicLink' })
}

/** Returns the beginning of a file in a tar archive. Its content of `size` bytes follows. */
export function tarFile(path: string, size: number): Buffer {
  return headerOf({ path, mode: 0o600, size, type: 'File' })
}

function headerOf(fields: ConstructorParameters<typeof Header>[0] & object): Buffer {
  const header = new Header({ uid: 0, gid: 0, mtime: new Date(0), ...fields })
  header.encode()
  return header.block!
}
