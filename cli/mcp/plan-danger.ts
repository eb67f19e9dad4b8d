/* Decides which operations an assistant may only call after a confirmation. */

/** Operations that destroy data, or lock somebody out, although their method is not DELETE. */
const destructive: ReadonlySet<string> = new Set([
  'actOnContainers',
  'finishFleetCaRotation',
  'reinstallContainer',
  'resetPassword',
  'restoreBackup',
  'restoreSnapshot',
  'rollbackFleetUpgrade',
  'rotateSubUserPassword',
  'updateAccessPolicy',
])

export const isDestructive = (method: string, operationId: string): boolean =>
  method === 'DELETE' || destructive.has(operationId)
