import type { Admin } from '../../api/types.ts'

export type Role = Admin['role']

/** The roles of administrators, from the one with most rights to the one with least. */
export const roles: readonly Role[] = ['full', 'operator', 'support', 'read_only']
