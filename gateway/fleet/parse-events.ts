import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import type { Template } from '../../proto/gen/berth/agent/v1/image.js'
import type { Operation, Subject } from '../../proto/gen/berth/agent/v1/operation.js'
import { guestNamePattern, templateIdPattern, uuidPattern } from '../../shared/guest-rules.js'
import { clampTime } from '../../shared/time.js'

/*
 * What an agent says is data of another machine: it is brought within bounds before it enters the view, so
 * that a broken or hostile agent costs the gateway little. What has no valid identity is not taken at all.
 */

const maxTextChars = 1000
const maxMappings = 1000
const maxAddresses = 256
const maxWarnings = 20

const namePattern = new RegExp(guestNamePattern)
const guestUuidPattern = new RegExp(uuidPattern)
const templatePattern = new RegExp(templateIdPattern)
const operationIdPattern = /^[\x21-\x7e]{1,128}$/

/** The guest, or undefined when its uuid, id or name are none. */
export function parseGuest(guest: Guest): Guest | undefined {
  const named = guestUuidPattern.test(guest.uuid) && namePattern.test(guest.name)
  if (!named || /^\d+$/.test(guest.name) || guest.id < 1) return undefined
  const portMappings = guest.portMappings.slice(0, maxMappings)
  return {
    ...guest,
    templateId: shorten(guest.templateId),
    statusReason: shorten(guest.statusReason),
    policyReason: shorten(guest.policyReason),
    ipv4: shorten(guest.ipv4, 45),
    ipv6: shorten(guest.ipv6, 45),
    mac: shorten(guest.mac, 17),
    portMappings: portMappings.map((mapping) => ({
      ...mapping,
      protocol: mapping.protocol === 'udp' ? 'udp' : 'tcp',
      description: shorten(mapping.description, 200),
      hostIp: shorten(mapping.hostIp, 45),
    })),
    publicIpv4s: parseAddresses(guest.publicIpv4s),
    ipv6Addresses: parseAddresses(guest.ipv6Addresses),
    createdAtMs: clampTime(guest.createdAtMs),
    expiresAtMs: clampTime(guest.expiresAtMs),
  }
}

function parseAddresses(addresses: readonly string[]): string[] {
  return addresses.slice(0, maxAddresses).map((address) => shorten(address, 45))
}

export function parseOperation(operation: Operation): Operation | undefined {
  if (!operationIdPattern.test(operation.id)) return undefined
  return {
    ...operation,
    action: shorten(operation.action, 64),
    subject: operation.subject && parseSubject(operation.subject),
    progress: Math.min(100, operation.progress),
    stage: shorten(operation.stage),
    errorCode: shorten(operation.errorCode, 64),
    error: shorten(operation.error),
    requestedBy: shorten(operation.requestedBy, 200),
    createdAtMs: clampTime(operation.createdAtMs),
    startedAtMs: clampTime(operation.startedAtMs),
    finishedAtMs: clampTime(operation.finishedAtMs),
  }
}

function parseSubject(subject: Subject): Subject {
  return {
    kind: shorten(subject.kind, 32),
    id: shorten(subject.id, 64),
    name: shorten(subject.name, 200),
    number: subject.number,
  }
}

export function parseTemplate(template: Template): Template | undefined {
  if (!templatePattern.test(template.id)) return undefined
  return {
    ...template,
    name: shorten(template.name, 200),
    distro: shorten(template.distro, 64),
    release: shorten(template.release, 64),
    arch: shorten(template.arch, 32),
    description: shorten(template.description),
  }
}

/** The description, or undefined when it is of another host: an agent speaks for its own only. */
export function parseDescription(host: HostDescription, hostId: string): HostDescription | undefined {
  if (host.hostId !== hostId) return undefined
  return {
    ...host,
    version: shorten(host.version, 64),
    hostname: shorten(host.hostname, 253),
    kernel: shorten(host.kernel, 200),
    bootId: shorten(host.bootId, 64),
    timeZone: shorten(host.timeZone, 64),
    startedAtMs: clampTime(host.startedAtMs),
  }
}

export function parseMetrics(metrics: HostMetrics): HostMetrics {
  return {
    ...metrics,
    publicIpv4: shorten(metrics.publicIpv4, 45),
    publicIpv4Interface: shorten(metrics.publicIpv4Interface, 16),
    publicIpv6: shorten(metrics.publicIpv6, 45),
    publicIpv6Interface: shorten(metrics.publicIpv6Interface, 16),
    sampledAtMs: clampTime(metrics.sampledAtMs),
    warnings: metrics.warnings.slice(0, maxWarnings).map((warning) => shorten(warning, 300)),
  }
}

function shorten(text: string, max = maxTextChars): string {
  // A slice keeps the whole text alive in V8; a copy does not.
  return text.length > max ? Buffer.from(text.slice(0, max)).toString() : text
}
