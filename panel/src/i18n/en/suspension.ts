/** Texts about the suspension of a guest by an administrator. */
export const suspension = {
  'suspend.action': 'Suspend',
  'suspend.ask': 'Suspend {{name}}?',
  'suspend.text':
    'Until you lift the suspension, nobody can start, restart, reinstall or restore the guest, reset its password or open its console.',
  'suspend.reason': 'Reason',
  'suspend.reasonHint': 'Only administrators see the reason.',
  'suspend.message': 'Message',
  'suspend.messageHint': 'The customer sees this message.',
  'suspend.mode': 'Effect',
  'suspend.mode.stop': 'Stop the guest',
  'suspend.mode.network': 'Keep it running without a network',
  'suspend.until': 'End of the suspension',
  'suspend.untilHint': 'Leave empty to suspend the guest until you lift the suspension.',
  'unsuspend.action': 'Lift the suspension',
  'suspended.stop': 'This guest is suspended.',
  'suspended.network': 'This guest is suspended: it runs without a network.',
  'suspended.reason': 'Reason: {{reason}}',
  'suspended.until': 'Until {{time}}',
  'suspended.noStart': 'A suspended guest can’t be started.',
  'status.suspended': 'Suspended',
} as const
