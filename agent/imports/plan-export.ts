import { isDescription } from '../../shared/guest-rules.js'
import { parseTags } from '../../shared/label-rules.js'
import type { ExportManifest } from '../exports/manifest.js'
import type { ForeignContainer, ForeignMapping, ImportNote } from './contract.js'

type ExportedGuest = ExportManifest['guest']

const gib = 1024 ** 3

/** Describes the container of an archive that `berth guest export` has written. */
export function planExport({ guest }: ExportManifest): ForeignContainer {
  const { name, limits, port_mappings: mappings } = guest
  const tags = planTags(guest.tags ?? [])
  const devices = (['tun', 'fuse'] as const).filter((device) => guest.devices.includes(device))
  return {
    name,
    vcpuMilli: Math.round(limits.vcpu * 1000),
    ramMb: limits.ram_mb,
    diskBytes: limits.disk_gb * gib,
    rates: {
      networkDownMbps: limits.network_down_mbps,
      networkUpMbps: limits.network_up_mbps,
      ioReadMbps: limits.io_read_mbps,
      ioWriteMbps: limits.io_write_mbps,
      ioReadIops: limits.io_read_iops,
      ioWriteIops: limits.io_write_iops,
    },
    addresses: [],
    mappings: mappings.flatMap((mapping) => planMapping(mapping) ?? []),
    devices,
    ...(tags && { tags }),
    notes: notesOf(guest, tags),
  }
}

/** Returns the tags in the form that guests have. Undefined: they are not valid. */
function planTags(tags: readonly string[]): string[] | undefined {
  try {
    return parseTags(tags)
  } catch {
    return undefined
  }
}

/** Returns a mapping of two ranges of equal length. Undefined: the ranges are not valid. */
function planMapping(mapping: ExportedGuest['port_mappings'][number]): ForeignMapping | undefined {
  const { protocol, host_ip: hostIp, host_port: hostPort, container_port: containerPort } = mapping
  const length = mapping.host_port_end - hostPort + 1
  if (length < 1 || mapping.container_port_end - containerPort + 1 !== length) return undefined
  const description = isDescription(mapping.description) ? mapping.description : ''
  return { protocol, hostIp, hostPort, containerPort, length, ...(description !== '' && { description }) }
}

function notesOf(guest: ExportedGuest, tags: readonly string[] | undefined): ImportNote[] {
  const { firewall, port_mappings: mappings } = guest
  const invalid = mappings.filter((mapping) => !planMapping(mapping)).length
  const notes: ImportNote[] = []
  const add = (isNeeded: boolean, part: string, reason: string): void => void (isNeeded && notes.push({ part, reason }))
  add(invalid > 0, 'port mappings', `${invalid} of them are not valid`)
  add(!tags, 'tags', 'they are not valid')
  add(
    firewall.enabled || firewall.rules.length > 0,
    'firewall',
    `it has ${firewall.rules.length} rules, which are in berth-export.json of the archive: set them before the start`,
  )
  add((guest.note ?? '') !== '', 'note', 'it is in berth-export.json of the archive')
  return notes
}
