/* This module derives the names of commands from the paths and ids of operations. */

export interface NamedOperation {
  readonly method: string
  readonly path: string
  readonly operationId: string
}

export interface CommandName {
  readonly noun: string
  readonly verb: string
}

/** Nouns that differ from the singular of the segment in the path. */
const nouns: Readonly<Record<string, string>> = {
  account: 'account',
  containers: 'guest',
  'port-mappings': 'port',
  'sub-user': 'customer',
  'sub-users': 'customer',
  'webssh-origins': 'console-origins',
  ipv6: 'ipv6',
}

/** Names of operations whose derived name is hard to read or is not unique. */
const exceptions: Readonly<Record<string, string>> = {
  actOnContainers: 'guest batch',
  addCustomImage: 'image add',
  confirmSession: 'account confirm',
  confirmSessionWithPasskey: 'account confirm-passkey',
  createContainers: 'guest create-many',
  deleteOldCopy: 'host delete-copy',
  deleteKeptBackup: 'backup-target delete-backup',
  diagnoseConnection: 'guest diagnose',
  getDrain: 'host drain-status',
  getFirewall: 'firewall get',
  getAutomaticBalance: 'fleet automatic-balance',
  getBalanceSettings: 'balance-settings get',
  getDeletionSettings: 'deletion-settings get',
  getFleetUpgrade: 'fleet upgrade-status',
  getFleetBalance: 'fleet balance',
  getFleetUsage: 'fleet usage',
  getHostHistory: 'host history',
  getHostInfo: 'host info',
  getHostReport: 'host report',
  getPortSettings: 'port-settings get',
  getVersion: 'gateway version',
  listBackedUpContainers: 'backup-target guests',
  listContainerSummaries: 'guest list-short',
  listContainerSummariesByPost: 'guest list-short-by-post',
  listContainerUsage: 'guest list-usage',
  listKeptBackups: 'backup-target backups',
  listOwnAuditLogs: 'account audit-logs',
  listOwnLoginLogs: 'account login-logs',
  login: 'session login',
  loginAsSubUser: 'session login-customer',
  loginWithAccessCode: 'session login-access-code',
  loginWithCode: 'session login-code',
  beginPasskeyConfirmation: 'account begin-passkey-confirmation',
  beginPasskeyLogin: 'session begin-passkey',
  loginWithPasskey: 'session login-passkey',
  beginSecondPasskey: 'session begin-second-passkey',
  loginWithSecondPasskey: 'session login-second-passkey',
  logout: 'session logout',
  viewAsSubUser: 'session view-customer',
  returnFromView: 'session return',
  readSetupLink: 'setup read-link',
  redeliverWebhook: 'webhook redeliver',
  removeCustomImage: 'image remove',
  replaceFirewall: 'firewall set',
  setUp: 'setup complete',
  streamEvents: 'event stream',
  updateBalanceSettings: 'balance-settings update',
  updateDeletionSettings: 'deletion-settings update',
  updatePortSettings: 'port-settings update',
  updateResourceLimit: 'guest resize',
}

/**
 * Returns the name of an operation. The noun is the last collection of the path. The verb is the id of the operation
 * without this noun. A list below an object has the names of both collections, such as `guest backups`.
 * @param collections all path segments directly before a parameter, from all operations (see `collectionsOf`)
 */
export function planName(operation: NamedOperation, collections: ReadonlySet<string>): CommandName {
  const [noun = '', verb = ''] = (exceptions[operation.operationId] ?? deriveName(operation, collections)).split(' ')
  return { noun, verb }
}

/** Returns all path segments directly before a parameter, such as `containers` in `/containers/{id}/start`. */
export function collectionsOf(paths: readonly string[]): Set<string> {
  const found = paths.flatMap((path) => [...path.matchAll(/([^/{}]+)\/\{/g)].map(([, name = '']) => name))
  return new Set(found)
}

function deriveName({ method, path, operationId }: NamedOperation, collections: ReadonlySet<string>): string {
  const segments = path.split('/').filter(Boolean)
  const own = segments.filter((segment) => collections.has(segment))
  const isListOfParent = method === 'GET' && own.length > 1 && segments.at(-1) === own.at(-1)
  if (isListOfParent) return `${nounOf(own.at(-2)!)} ${own.at(-1)}`
  const segment = own.at(-1) ?? segments[0] ?? ''
  return `${nounOf(segment)} ${verbOf(method, operationId, segment)}`
}

function nounOf(segment: string): string {
  return nouns[segment] ?? singular(segment)
}

function verbOf(method: string, operationId: string, segment: string): string {
  const words = wordsOf(operationId)
  const own = new Set([...segment.split('-'), ...singular(segment).split('-')])
  const rest = words.filter((word, index) => index === 0 || !own.has(word))
  const isRead = method === 'GET' && /^(get|list)$/.test(words[0] ?? '')
  return (isRead && rest.length > 1 ? rest.slice(1) : rest).join('-')
}

function wordsOf(operationId: string): string[] {
  return operationId.split(/(?=[A-Z])/).map((word) => word.toLowerCase())
}

function singular(words: string): string {
  return words.replace(/ies$/, 'y').replace(/(?<![su])s$/, '')
}
