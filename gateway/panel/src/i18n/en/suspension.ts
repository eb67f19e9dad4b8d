/** A guest that was suspended by an administrator. */
export const suspension = {
  'suspend.action': 'Suspend',
  'suspend.ask': 'Suspend {{name}}?',
  'suspend.text':
    'Until the suspension is lifted nobody can start or restart the guest, reinstall or restore it, reset its password or open its console.',
  'suspend.reason': 'Reason',
  'suspend.reasonHint': 'Only administrators see it.',
  'suspend.message': 'Message',
  'suspend.messageHint': 'The customer sees it.',
  'suspend.mode': 'Effect',
  'suspend.mode.stop': 'Stop the guest',
  'suspend.mode.network': 'Keep it running without a network',
  'suspend.until': 'Until',
  'suspend.untilHint': 'Empty: until it is lifted.',
  'unsuspend.action': 'Lift the suspension',
  'suspended.stop': 'This guest is suspended.',
  'suspended.network': 'This guest is suspended: it runs without a network.',
  'suspended.reason': 'Reason: {{reason}}',
  'suspended.until': 'Until {{time}}',
  'suspended.noStart': 'The guest is suspended.',
  'status.suspended': 'Suspended',
} as const
