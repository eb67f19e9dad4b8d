import { checkInteger, type Range } from './field-checks.js'

/** Actions that can be requested for the agent's swap file. */
export const swapActions = ['create', 'resize', 'enable', 'disable', 'delete'] as const
export type SwapAction = (typeof swapActions)[number]

/** Permitted size of the agent's swap file in MiB. */
export const swapMb: Range = { min: 64, max: 1_048_576 }

/** @throws {BerthError} `invalid_field` for the field `size_mb` */
export function checkSwapMb(sizeMb: number): number {
  return checkInteger('size_mb', sizeMb, swapMb)
}
