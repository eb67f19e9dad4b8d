/*
 * What a sub-user is bound to beside its guests. It comes from its record with every request, never from its session.
 */

export interface SubUserBounds {
  /** Ids of images that it may reinstall from; undefined: all that are enabled. */
  readonly images: ReadonlySet<string> | undefined
  /** Host ports that lead to one of its containers, counted over all mappings; it may add none beyond them. */
  readonly portMappingLimit: number
}

/** Permission to change where mappings lead inside a container, and nothing else of its network. */
export const innerPortsScope = 'container:network:inner'

/** What a sub-user may be permitted; each but the last is the scope of a route. */
export const subUserPermissions = [
  ...(['container:read', 'container:power', 'container:reinstall', 'container:password'] as const),
  'container:network',
  ...(['snapshot:read', 'snapshot:create', 'snapshot:delete', 'snapshot:restore'] as const),
  ...(['snapshot:schedule', 'image:read', 'task:read', 'terminal:ssh', 'terminal:vnc'] as const),
  innerPortsScope,
] as const
export type SubUserPermission = (typeof subUserPermissions)[number]

/** Of a sub-user for whom none are named: all but the narrow form of one that is there in full. */
export const defaultPermissions: readonly SubUserPermission[] = subUserPermissions.filter(
  (permission) => permission !== innerPortsScope,
)
