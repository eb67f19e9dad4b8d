/** Events in the timeline of a guest. */
export const timeline = {
  'timeline.filter': 'Filter',
  'timeline.kind.all': 'All',
  'timeline.kind.task': 'Tasks',
  'timeline.kind.change': 'Changes',
  'timeline.kind.alert': 'Alerts',
  'timeline.kind.policy': 'Policy',
  'timeline.kind.restart': 'Restarts',
  'timeline.policy': 'Stopped by policy: suspended, expired or traffic used up',
  'timeline.restart': 'Restarted unexpectedly',
} as const
