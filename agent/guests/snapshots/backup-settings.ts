import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { BackupSettings } from '../../../proto/gen/berth/agent/v1/backup.js'
import { GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import { checkFirewall, type Firewall, type WantedFirewall } from '../../../shared/firewall-rules.js'
import type { GuestRecord } from '../record/record.js'

/*
 * Maximum lengths, in characters, of the texts with settings and firewall. restic gets both texts in one argument,
 * encoded once more. The kernel limits an argument to 128 KiB.
 */
const maxLength = 48 * 1024
export const maxFirewallLength = 32 * 1024
/** Maximum size in bytes of a recorded firewall when it is decompressed. A hostile backup could expand without limit. */
const maxPlainLength = 4 * 1024 ** 2

/** Returns a guest's settings as text for the note of a backup. If the text is too long, omits all port mappings. */
export function encodeSettings(record: GuestRecord): string {
  const text = encode(record)
  return text.length <= maxLength ? text : encode({ ...record, portMappings: [] })
}

/** Reads recorded settings. Returns `undefined` if the backup has none, or if they are damaged. */
export function decodeSettings(backupId: string, text: string | undefined): BackupSettings | undefined {
  if (text === undefined) return undefined
  try {
    return { ...BackupSettings.decode(Buffer.from(text, 'base64')), backupId }
  } catch {
    return undefined
  }
}

/** Encodes a firewall for a note. If the text is too long, omits descriptions. If it still is, encodes “drop all”. */
export function encodeFirewall(firewall: Firewall): string {
  const rules = firewall.rules.map((rule) => ({ ...rule, description: '' }))
  const blocked: Firewall = { enabled: true, defaultAction: 'DROP', rules: [] }
  const texts = [firewall, { ...firewall, rules }, blocked].map(deflate)
  return texts.find((text) => text.length <= maxFirewallLength)!
}

/** Returns the firewall to record for a guest. The field is absent if the guest has none. */
export function recordFirewall({ firewall }: Pick<GuestRecord, 'firewall'>): { readonly firewall?: string } {
  return firewall.enabled || firewall.rules.length > 0 ? { firewall: encodeFirewall(firewall) } : {}
}

/** @throws if the text is not a recorded firewall */
export function decodeFirewall(text: string): Firewall {
  const plain = inflateRawSync(Buffer.from(text, 'base64'), { maxOutputLength: maxPlainLength }).toString()
  return checkFirewall(JSON.parse(plain) as WantedFirewall)
}

function deflate(value: unknown): string {
  return deflateRawSync(JSON.stringify(value)).toString('base64')
}

function encode(record: GuestRecord): string {
  const { name, spec, portMappings, traffic, expiresAtMs, snapshotLimit } = record
  const recorded = BackupSettings.create({
    name,
    spec: GuestSpec.create({
      ...spec,
      assignNat: portMappings.length > 0,
      portMappings,
      ipv4Count: record.publicIpv4s.length,
      ipv6Count: record.ipv6Addresses.length,
      expiresAtMs,
      traffic,
      snapshotLimit,
      devices: [...record.devices],
      placement: { ...record.placement, labels: [...record.placement.labels] },
      tags: [...record.labels.tags],
    }),
  })
  return Buffer.from(BackupSettings.encode(recorded).finish()).toString('base64')
}
