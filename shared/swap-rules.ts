import { checkInteger, type Range } from './field-checks.js'

/** What is done to the agent's swap file. */
export const swapActions = ['create', 'resize', 'enable', 'disable', 'delete'] as const
export type SwapAction = (typeof swapActions)[number]

/** MiB that the agent's swap file may have. */
export const swapMb: Range = { min: 64, max: 1_048_576 }

/** @throws {BerthError} `invalid_field` of `size_mb` */
export function checkSwapMb(sizeMb: number): number {
  return checkInteger('size_mb', sizeMb, swapMb)
}
