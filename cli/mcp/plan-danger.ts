/* Decides which operations an assistant can call only after a confirmation by the user. */

/** Operations that only read, although their method is not GET. */
const reading: ReadonlySet<string> = new Set(['listContainerSummariesByPost'])

/**
 * Operations that change something, but destroy nothing, give nobody new rights, and lock nobody out. New operations
 * are not in this list, so they need a confirmation.
 */
const harmless: ReadonlySet<string> = new Set([
  'addPortMapping',
  'assignIpv6',
  'cancelImageDownload',
  'checkBackupTarget',
  'checkSecurity',
  'createBackup',
  'createContainer',
  'createContainers',
  'createSnapshot',
  'downloadImage',
  'pauseDrain',
  'pauseFleetUpgrade',
  'redeliverWebhook',
  'restartContainer',
  'scanIpv4',
  'startContainer',
  'testWebhook',
  'undeleteContainer',
  'unsuspendContainer',
])

export const isReading = (method: string, operationId: string): boolean => method === 'GET' || reading.has(operationId)

export const needsConfirmation = (method: string, operationId: string): boolean =>
  !isReading(method, operationId) && !harmless.has(operationId)
