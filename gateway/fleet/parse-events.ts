import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import type { Alert } from '../../proto/gen/berth/agent/v1/security.js'
import type { GuestImport } from '../../proto/gen/berth/agent/v1/import.js'
import type { Template } from '../../proto/gen/berth/agent/v1/image.js'
import type { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import { isGuestName, templateIdPattern, uuidPattern } from '../../shared/guest-rules.js'
import { abuseTypes, alertActions, severities } from '../../shared/abuse.js'
import { clampTime } from '../../shared/time.js'

/*
 * Limits the size of data from agents, because a broken or hostile agent could fill the gateway's memory. Data without
 * a valid identity is rejected. Each type of field has a limit, and some fields have a lower limit.
 */

const maxTextChars = 1000
const maxItems = 1000
/** Replaces all empty lists, of which each guest has several, to save memory and the work of the garbage collector. */
const noItems: unknown[] = []
Object.freeze(noItems)

const textChars: Readonly<Record<string, number>> = {
  ipv4: 45,
  ipv6: 45,
  hostIp: 45,
  publicIpv4: 45,
  publicIpv6: 45,
  mac: 17,
  id: 128,
  uuid: 36,
  publicIpv4Interface: 16,
  publicIpv6Interface: 16,
  hostname: 253,
  kernel: 200,
  version: 64,
  bootId: 64,
  timeZone: 64,
  distro: 64,
  release: 64,
  arch: 32,
  name: 200,
  kind: 32,
  action: 64,
  variant: 64,
  source: 32,
  failure: 64,
  os: 16,
  sha256: 64,
  unsupported: 200,
  url: 2000,
  targetId: 64,
  errorCode: 64,
  requestedBy: 200,
  createdBy: 200,
  warnings: 300,
  publicIpv4s: 45,
  ipv6Addresses: 45,
  time: 5,
  sourceIp: 45,
  targetIp: 45,
  guestName: 200,
  guestUuid: 36,
  detail: 300,
  smtp: 16,
  devices: 16,
  tags: 32,
  note: 2000,
  group: 64,
  labels: 128,
  spread: 64,
  together: 64,
}
const listItems: Readonly<Record<string, number>> = {
  warnings: 20,
  publicIpv4s: 256,
  ipv6Addresses: 256,
  devices: 16,
  tags: 16,
  labels: 16,
}

/** Frequent values of text fields. All guests share one string in memory for each of these values. */
const words: ReadonlyMap<string, string> = new Map(
  ['lxc', 'kvm', 'running', 'stopped', 'total', 'split', 'stop', 'throttle', 'none', 'tcp', 'udp'].map((word) => [
    word,
    word,
  ]),
)

const guestUuidPattern = new RegExp(uuidPattern)
const templatePattern = new RegExp(templateIdPattern)
const operationIdPattern = /^[\x21-\x7e]{1,128}$/

/** True if uuid, id and name of the guest are valid. */
export function hasIdentity({ uuid, id, name }: Pick<Guest, 'uuid' | 'id' | 'name'>): boolean {
  return guestUuidPattern.test(uuid) && isGuestName(name) && id >= 1
}

/** Cuts long texts and lists of a guest. `undefined`: uuid, id or name is invalid. */
export function parseGuest(guest: Guest): Guest | undefined {
  if (!hasIdentity(guest)) return undefined
  const parsed = bounded(guest)
  for (const mapping of parsed.portMappings) {
    mapping.protocol = mapping.protocol === 'udp' ? 'udp' : 'tcp'
    mapping.description = shorten(mapping.description, 200)
  }
  for (const kept of [...parsed.snapshots, ...parsed.backups]) kept.description = shorten(kept.description, 200)
  return parsed
}

export function parseOperation(operation: Operation): Operation | undefined {
  if (!operationIdPattern.test(operation.id)) return undefined
  return { ...bounded(operation), progress: Math.min(100, operation.progress) }
}

export function parseTemplate(template: Template): Template | undefined {
  if (!templatePattern.test(template.id)) return undefined
  const parsed = bounded(template)
  return { ...parsed, progress: Math.min(100, Math.max(0, parsed.progress)) }
}

/** Cuts long texts and lists of a requested import. `undefined`: id, name or kind of the guest is invalid. */
export function parseImport(request: GuestImport): GuestImport | undefined {
  const isNamed = guestUuidPattern.test(request.id) && isGuestName(request.name)
  if (!isNamed || request.spec?.virtualization !== 'lxc' || request.spec.importId !== request.id) return undefined
  return bounded(request)
}

/** Cuts long texts of an alert. An unknown action becomes "". `undefined`: id, guest, type or severity is invalid. */
export function parseAlert(alert: Alert): Alert | undefined {
  if (!operationIdPattern.test(alert.id) || !guestUuidPattern.test(alert.guestUuid)) return undefined
  const type = abuseTypes.find((known) => known === alert.type)
  const severity = severities.find((known) => known === alert.severity)
  const action = alertActions.find((known) => known === alert.action) ?? ''
  return type && severity ? { ...bounded(alert), type, severity, action } : undefined
}

/** Cuts long texts and lists in an agent's description of its host. `undefined`: the description names another host. */
export function parseDescription(host: HostDescription, hostId: string): HostDescription | undefined {
  return host.hostId === hostId ? bounded(host) : undefined
}

export function parseMetrics(metrics: HostMetrics): HostMetrics {
  return bounded(metrics)
}

/**
 * Cuts long texts and lists of a message, and clamps times to valid ones. Changes the message itself, because copies of
 * all guests would delay the start of a gateway and take more memory.
 */
function bounded<Message extends object>(message: Message): Message {
  const fields = message as Record<string, unknown>
  for (const field in fields) {
    const value = fields[field]
    // Most fields of a guest have one of these values, which need no check.
    if (value === '' || value === 0 || value === undefined || value === false) continue
    const valid = boundedValue(field, value)
    if (valid !== value) fields[field] = valid
  }
  return message
}

function boundedValue(field: string, value: unknown): unknown {
  if (typeof value === 'string') return words.get(value) ?? shorten(value, textChars[field])
  if (typeof value === 'number') return field.endsWith('Ms') ? clampTime(value) : value
  if (Array.isArray(value)) return boundedList(field, value)
  return typeof value === 'object' && value !== null ? bounded(value) : value
}

function boundedList(field: string, list: unknown[]): unknown[] {
  if (list.length === 0) return noItems
  const max = listItems[field] ?? maxItems
  const items = list.length > max ? list.slice(0, max) : list
  items.forEach((item, at) => (items[at] = boundedValue(field, item)))
  return items
}

function shorten(text: string, max = maxTextChars): string {
  // The text is copied, because a slice in V8 keeps the whole original text in memory.
  return text.length > max ? Buffer.from(text.slice(0, max)).toString() : text
}
