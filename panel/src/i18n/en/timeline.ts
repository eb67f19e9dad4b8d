/** Names of the events in the timeline of a guest. */
export const timeline = {
  'timeline.filter': 'Filter',
  'timeline.kind.all': 'All',
  'timeline.kind.task': 'Tasks',
  'timeline.kind.change': 'Changes',
  'timeline.kind.alert': 'Alerts',
  'timeline.kind.policy': 'Policy stops',
  'timeline.kind.restart': 'Restarts',
  'timeline.kind.console': 'Consoles',
  'timeline.console': 'Console',
  'timeline.policy': 'Stopped by policy: suspension, expiry, traffic or abuse',
  'timeline.restart': 'Restarted automatically',
} as const
