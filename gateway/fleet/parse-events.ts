import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import type { Template } from '../../proto/gen/berth/agent/v1/image.js'
import type { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import { guestNamePattern, templateIdPattern, uuidPattern } from '../../shared/guest-rules.js'
import { clampTime } from '../../shared/time.js'

/*
 * What an agent says is data of another machine: it is brought within bounds before it enters the view, so
 * that a broken or hostile agent costs the gateway little. What has no valid identity is not taken at all.
 * Every field is bounded by what it is (a text, a list, a time), those below by less.
 */

const maxTextChars = 1000
const maxItems = 1000

const textChars: Readonly<Record<string, number>> = {
  ...{ ipv4: 45, ipv6: 45, hostIp: 45, publicIpv4: 45, publicIpv6: 45, mac: 17, id: 128, uuid: 36 },
  ...{ publicIpv4Interface: 16, publicIpv6Interface: 16, hostname: 253, kernel: 200, version: 64 },
  ...{ bootId: 64, timeZone: 64, distro: 64, release: 64, arch: 32, name: 200, kind: 32, action: 64 },
  ...{ targetId: 64 },
  ...{ errorCode: 64, requestedBy: 200, createdBy: 200, warnings: 300, publicIpv4s: 45, ipv6Addresses: 45 },
}
const listItems: Readonly<Record<string, number>> = { warnings: 20, publicIpv4s: 256, ipv6Addresses: 256 }

/** Words that every guest has are kept once, not once a guest. */
const words: ReadonlyMap<string, string> = new Map(
  ['lxc', 'kvm', 'running', 'stopped', 'total', 'split', 'stop', 'throttle', 'none', 'tcp', 'udp'].map(
    (word) => [word, word],
  ),
)

const namePattern = new RegExp(guestNamePattern)
const guestUuidPattern = new RegExp(uuidPattern)
const templatePattern = new RegExp(templateIdPattern)
const operationIdPattern = /^[\x21-\x7e]{1,128}$/

/** The guest, or undefined when its uuid, id or name are none. */
export function parseGuest(guest: Guest): Guest | undefined {
  const named = guestUuidPattern.test(guest.uuid) && namePattern.test(guest.name)
  if (!named || /^\d+$/.test(guest.name) || guest.id < 1) return undefined
  const parsed = bounded(guest)
  for (const mapping of parsed.portMappings) {
    mapping.protocol = mapping.protocol === 'udp' ? 'udp' : 'tcp'
    mapping.description = shorten(mapping.description, 200)
  }
  for (const kept of [...parsed.snapshots, ...parsed.backups])
    kept.description = shorten(kept.description, 200)
  return parsed
}

export function parseOperation(operation: Operation): Operation | undefined {
  if (!operationIdPattern.test(operation.id)) return undefined
  return { ...bounded(operation), progress: Math.min(100, operation.progress) }
}

export function parseTemplate(template: Template): Template | undefined {
  return templatePattern.test(template.id) ? bounded(template) : undefined
}

/** The description, or undefined when it is of another host: an agent speaks for its own only. */
export function parseDescription(host: HostDescription, hostId: string): HostDescription | undefined {
  return host.hostId === hostId ? bounded(host) : undefined
}

export function parseMetrics(metrics: HostMetrics): HostMetrics {
  return bounded(metrics)
}

/** A copy within bounds. */
function bounded<Message extends object>(message: Message): Message {
  const copy: Record<string, unknown> = {}
  for (const [field, value] of Object.entries(message)) copy[field] = boundedValue(field, value)
  return copy as Message
}

function boundedValue(field: string, value: unknown): unknown {
  if (typeof value === 'string') return words.get(value) ?? shorten(value, textChars[field])
  if (typeof value === 'number') return field.endsWith('Ms') ? clampTime(value) : value
  if (Array.isArray(value))
    return value.slice(0, listItems[field] ?? maxItems).map((item: unknown) => boundedValue(field, item))
  return typeof value === 'object' && value !== null ? bounded(value) : value
}

function shorten(text: string, max = maxTextChars): string {
  // A slice keeps the whole text alive in V8; a copy does not.
  return text.length > max ? Buffer.from(text.slice(0, max)).toString() : text
}
