/*
 * Bounds of a sub-user in addition to its guests. They are read from its record with every request, never from its
 * session.
 */

export interface SubUserBounds {
  /** Ids of images that it may reinstall from; undefined: all that are enabled. */
  readonly images: ReadonlySet<string> | undefined
  /** Most host ports that lead to one of its containers, counted over all mappings; it cannot add more. */
  readonly portMappingLimit: number
}

/** Permission to change only the targets of mappings inside a container. */
export const innerPortsScope = 'container:network:inner'

/** Permissions of a sub-user; each except the last is the scope of a route. */
export const subUserPermissions = [
  ...(['container:read', 'container:power', 'container:reinstall', 'container:password'] as const),
  'container:network',
  ...(['snapshot:read', 'snapshot:create', 'snapshot:delete', 'snapshot:restore'] as const),
  ...(['snapshot:schedule', 'image:read', 'task:read', 'terminal:ssh', 'terminal:vnc'] as const),
  innerPortsScope,
] as const
export type SubUserPermission = (typeof subUserPermissions)[number]

/** Default permissions: all except the restricted form of one that is included in full. */
export const defaultPermissions: readonly SubUserPermission[] = subUserPermissions.filter(
  (permission) => permission !== innerPortsScope,
)
