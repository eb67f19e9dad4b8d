import { invalidField } from './errors.js'

/*
 * Rules for text from users, checked by the gateway and again by the agent. Accepted values are safe as a file name, as
 * an argument and as an lxc configuration value.
 */

/** A name consists of letters, digits, `.`, `_` and `-`, and begins with a letter or a digit. */
export const guestNamePattern = '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'
export const guestNameRule = 'must be 1 to 63 letters, digits, ".", "_" or "-", beginning with a letter or digit'
export const templateIdPattern = '^[a-z0-9][a-z0-9.-]{0,62}$'
export const uuidPattern = '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
/** Ids have at most ten digits, because they are part of interface names, whose length the kernel limits. */
export const maxGuestId = 9_999_999_999
/** A time of day, `HH:MM`. */
export const timeOfDayPattern = '^([01]\\d|2[0-3]):[0-5]\\d$'
/** Printable text on one line, for a regular expression with the flag `u`. */
export const descriptionPattern = '^[^\\p{Cc}\\u2028\\u2029]{0,200}$'

export const limits = {
  vcpuMilli: { min: 50, max: 256_000 },
  ramMb: { min: 32, max: 4_194_304 },
  diskGb: { min: 1, max: 65_536 },
  networkMbps: { min: 0, max: 400_000 },
  ioMbps: { min: 0, max: 100_000 },
  iops: { min: 0, max: 10_000_000 },
  portMappings: { min: 0, max: 1000 },
  snapshots: { min: 0, max: 1000 },
  snapshotSpaceBytes: { min: 0, max: 2 ** 50 },
  snapshotIntervalHours: { min: 1, max: 8760 },
  backups: { min: 0, max: 100 },
} as const

/** Maximum number of characters of user data. Most clouds allow less. */
export const maxUserDataLength = 65_536

/** Default maximum number of snapshots of a guest. */
export const defaultSnapshotLimit = 5

const description = new RegExp(descriptionPattern, 'u')

export function isDescription(text: string): boolean {
  return description.test(text)
}

const [namePattern, uuidLike] = [new RegExp(guestNamePattern), new RegExp(uuidPattern, 'i')]

/** @throws {BerthError} `invalid_field` */
export function checkGuestName(name: string): void {
  if (!namePattern.test(name)) throw invalidField('name', `name: ${guestNameRule}`, { name: 'guest_name' })
  if (/^\d+$/.test(name))
    throw invalidField('name', 'name: must not consist of digits only', { name: 'not_digits_only' })
  if (uuidLike.test(name)) throw invalidField('name', 'name: must not look like a UUID', { name: 'not_a_uuid' })
}

export function isGuestName(name: string): boolean {
  return namePattern.test(name) && !/^\d+$/.test(name) && !uuidLike.test(name)
}

/** The names that a guest has within its own system. */
export interface HostNames {
  /** The host name: one label of RFC 1123. */
  readonly hostname: string
  /** The fully qualified domain name. Absent if the guest's name is not a domain name. */
  readonly fqdn?: string
}

/**
 * Derives host names from a guest's name. `web.example.com` gives the host name `web` and the FQDN `web.example.com`.
 * There is no FQDN if the name has no dots or its last label is a number (RFC 1123 2.1). Letters become lower case, and
 * characters that host names cannot contain become `-`.
 */
export function hostNamesOf(guestName: string): HostNames {
  const labels = guestName.split('.').map(labelOf)
  const [hostname = ''] = labels
  const isDomain = labels.length > 1 && labels.every(Boolean) && !/^\d+$/.test(labels.at(-1)!)
  return isDomain ? { hostname, fqdn: labels.join('.') } : { hostname: labelOf(guestName) || 'guest' }
}

function labelOf(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^a-z0-9-]/g, '-')
    .replace(/^-+|-+$/g, '')
}

/** The rule for passwords, as messages and the API reference state it. */
export const sshPasswordRule =
  '8 to 64 printable ASCII characters (letters, digits and punctuation, but no spaces and no letters such as "é"), ' +
  'with at least one letter and one digit'

/** @throws {BerthError} `invalid_field` unless the password follows {@link sshPasswordRule} */
export function checkSshPassword(password: string, field = 'ssh_password'): void {
  const ok = /^[\x21-\x7e]{8,64}$/.test(password) && /[A-Za-z]/.test(password) && /\d/.test(password)
  if (!ok) throw invalidField(field, `${field}: must be ${sshPasswordRule}`, { name: 'ssh_password' })
}
