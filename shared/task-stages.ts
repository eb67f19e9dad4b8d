/** Stages of tasks: names of steps, and what a step does. The panel has a text for each. */
export const taskStages = [
  // Steps
  ...(['check', 'clean', 'commit', 'configure', 'copy', 'disk', 'drop', 'exchange', 'fetch', 'forget'] as const),
  ...(['hand_over', 'image', 'keep', 'last_changes', 'leave', 'make', 'mode', 'password', 'prepare'] as const),
  ...(['release', 'remove', 'rescue', 'room', 'rotate', 'send', 'shutdown', 'snapshot', 'start', 'stop'] as const),
  ...(['use', 'verify', 'volume'] as const),
  'canceling',
  // Images
  ...(['asking the mirror', 'asking the server of images', 'waiting for other images', 'downloading'] as const),
  ...(['reading package lists', 'downloading packages', 'extracting packages'] as const),
  ...(['installing essential packages', 'installing packages', 'cleaning up'] as const),
  ...(['unpacking', 'converting', 'copying', 'writing the disk', 'publishing', 'image ready'] as const),
  // Backups and imports
  ...(['fetching', 'sending', 'sharing data', 'copying files', 'receiving'] as const),
  // Moves
  ...(['preparing the target', 'checking the target', 'sending the last changes'] as const),
  ...(['copying changes of the disk', 'memory'] as const),
] as const
export type TaskStage = (typeof taskStages)[number]

/** A stage, with or without an amount in English: `downloading: 3.1 of 40.0 MB`. */
export type StageText = TaskStage | `${TaskStage}: ${string}`

/** Returns the stage of a task that undoes a step. */
export function undoStage(step: string): string {
  return `undo ${step}`
}

/** Returns the stage of a task that waits before the next attempt of a failed step. */
export function retryStage(step: string): string {
  return `${step}: failed, trying again`
}
