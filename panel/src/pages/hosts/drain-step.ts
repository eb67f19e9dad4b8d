import type { Drain } from '../../api/types.ts'

export type DrainCommand = 'pause' | 'resume' | 'cancel' | 'bring_back'

/** Returns the commands that a drain accepts now. */
export function drainCommandsOf({ state, mode, direction, containers }: Drain): readonly DrainCommand[] {
  const has = (wanted: string): boolean => containers.some((guest) => guest.state === wanted)
  const canResume = state === 'paused' || state === 'canceled' || (state === 'done' && has('failed'))
  return [
    ...(state === 'running' ? (['pause'] as const) : []),
    ...(canResume ? (['resume'] as const) : []),
    ...(state === 'running' || state === 'paused' ? (['cancel'] as const) : []),
    ...(mode !== 'evacuate' && direction === 'away' && containers.some(isChanged) && !has('active')
      ? (['bring_back'] as const)
      : []),
  ]
}

/** True if the drain has moved or stopped the guest. */
function isChanged({ state, task_id: taskId }: Drain['containers'][number]): boolean {
  return state === 'done' && taskId !== ''
}

/** True while the drain makes progress, so that its state must be read again. */
export function isDraining({ state, containers }: Drain): boolean {
  return state === 'running' || containers.some((guest) => guest.state === 'active')
}
