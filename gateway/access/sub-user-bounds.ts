/*
 * Limits of a sub-user in addition to its guests. They are read from the sub-user's record at every request, so that a
 * change takes effect immediately.
 */

export interface SubUserBounds {
  /** Ids of the images for reinstallations. `undefined`: all enabled images. */
  readonly images: ReadonlySet<string> | undefined
  /** Maximum number of host ports in all mappings of one container. */
  readonly portMappingLimit: number
}

/** Permission to change only the container ports of mappings. */
export const innerPortsScope = 'container:network:inner'

/** Permissions of a sub-user. Each of them is also the scope of a route, except `innerPortsScope`. */
export const subUserPermissions = [
  ...(['container:read', 'container:power', 'container:reinstall', 'container:password'] as const),
  'container:network',
  ...(['snapshot:read', 'snapshot:create', 'snapshot:delete', 'snapshot:restore'] as const),
  ...(['snapshot:schedule', 'image:read', 'task:read', 'terminal:ssh', 'terminal:vnc'] as const),
  innerPortsScope,
] as const
export type SubUserPermission = (typeof subUserPermissions)[number]

/** Default permissions: all except `innerPortsScope`, which is a restricted form of another permission. */
export const defaultPermissions: readonly SubUserPermission[] = subUserPermissions.filter(
  (permission) => permission !== innerPortsScope,
)
