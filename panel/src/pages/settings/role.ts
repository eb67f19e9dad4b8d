import type { Admin } from '../../api/types.ts'

export type Role = Admin['role']

/** The roles of administrators. The role with most rights is first. */
export const roles: readonly Role[] = ['full', 'operator', 'support', 'read_only']
