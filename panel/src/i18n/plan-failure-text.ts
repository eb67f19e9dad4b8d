import type { ApiFailure } from '../api/failure.ts'

/** Finds a text by its key, and returns the second argument if no text exists. */
export type FindText = (key: string, fallback: string, values?: Readonly<Record<string, string | number>>) => string

/** Error codes that say little. The gateway's message in English is more exact. */
const vague: ReadonlySet<string> = new Set([
  'invalid_field',
  'invalid_request',
  'invalid_state',
  'missing_field',
  'offline_required',
  'resource_exhausted',
  'unsupported',
])

/** Keys of the labels of fields in forms. The other fields are limits, or have no label. */
const labels: Readonly<Record<string, string>> = {
  name: 'guest.name',
  username: 'login.username',
  tags: 'labels.tags',
  note: 'labels.note',
  group: 'hosts.group',
  labels: 'hosts.labels',
  address: 'hosts.address',
  host_id: 'guest.host',
  owner_id: 'guest.owner',
  expires_at: 'guest.expires',
  snapshot_limit: 'create.snapshots',
  port_mapping_count: 'create.ports',
  ipv4_count: 'create.ipv4',
  ipv6_count: 'create.ipv6',
  monthly_traffic_gb: 'traffic.monthly',
  public_key: 'create.publicKey',
  ssh_public_key: 'create.publicKey',
  user_data: 'create.userData',
  count: 'create.count',
}

/** Returns the label of a field of the API, or the name of the field if it has no label. */
export function planFieldLabel(field: string, find: FindText): string {
  const name = field.split('.').findLast((part) => !/^\d+$/.test(part)) ?? field
  return find(labels[name] ?? `limits.${name}`, field)
}

/** Returns the text of the violated rule. Empty: the error has no rule, or no text exists for it. */
export function planRuleText({ about: { rule, values } }: ApiFailure, find: FindText): string {
  return rule === undefined ? '' : find(`error.rule.${rule}`, '', values)
}

/**
 * Returns the text of the error's code. For vague codes the English message explains the error: it replaces the text on
 * English pages, and follows it on other pages.
 */
export function planCodeText({ code, message }: ApiFailure, find: FindText, language: string): string {
  const text = find(`error.${code}`, message)
  if (!vague.has(code) || text === message) return text
  return language === 'en' ? message : `${text}（${message}）`
}
