export type Tone = 'good' | 'warn' | 'bad' | 'busy' | 'off' | ''

const tones: Readonly<Record<string, Tone>> = {
  running: 'good',
  stopped: 'off',
  error: 'bad',
  unknown: 'warn',
  suspended: 'warn',
  creating: 'busy',
  starting: 'busy',
  stopping: 'busy',
  restarting: 'busy',
  deleting: 'busy',
  deleted: 'bad',
  task_pending: 'off',
  task_running: 'busy',
  task_done: 'good',
  task_failed: 'bad',
  task_canceled: 'off',
  online: 'good',
  offline: 'bad',
  pending: 'warn',
  invited: 'warn',
  draining: 'warn',
  enabled: 'good',
  disabled: 'off',
  success: 'good',
  failure: 'bad',
  delivery_waiting: 'off',
  delivery_retrying: 'warn',
  delivery_delivered: 'good',
  delivery_failed: 'bad',
  critical: 'bad',
  high: 'bad',
  medium: 'warn',
  low: '',
}

/** Returns the colour of a status. Colours are only an addition, because badges also contain the status as text. */
export function toneOf(status: string): Tone {
  return tones[status] ?? ''
}
