import type { SubUser } from '../../api/types.ts'

/** Credentials that are shown only once: after a customer was created or a password was rotated. */
export interface Credentials {
  readonly username: string
  readonly password: string
  readonly access_code: string
  readonly link: string
}

export type Permission = SubUser['permissions'][number]

/** Permissions of a customer, in the order in which the form shows them. */
export const permissions = [
  ...(['container:read', 'container:power', 'container:reinstall', 'container:password'] as const),
  ...(['container:network', 'container:network:inner'] as const),
  ...(['snapshot:read', 'snapshot:create', 'snapshot:restore', 'snapshot:delete', 'snapshot:schedule'] as const),
  ...(['image:read', 'task:read', 'terminal:ssh', 'terminal:vnc'] as const),
] as const satisfies readonly Permission[]
