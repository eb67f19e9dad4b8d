import type { FleetCa } from '../../api/types.ts'

export type CaCommand = 'begin' | 'cancel' | 'finish' | 'finishWithout'

/** True while the certificate authority is being replaced. */
export function isRotating({ rotation: { state } }: FleetCa): boolean {
  return state !== 'none' && state !== 'ended' && state !== 'canceled'
}

/** Returns the commands for the rotation that are possible now. */
export function caCommandsOf(ca: FleetCa): readonly CaCommand[] {
  const { state, finishing, missing_hosts: missing } = ca.rotation
  if (!isRotating(ca)) return ['begin']
  const waits = missing.some(({ reason, excluded }) => reason !== 'in_progress' && !excluded)
  return [
    ...(state === 'distributing' ? (['cancel'] as const) : []),
    ...(finishing ? [] : (['finish'] as const)),
    ...(waits ? (['finishWithout'] as const) : []),
  ]
}
