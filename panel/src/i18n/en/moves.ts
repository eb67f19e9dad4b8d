export const moves = {
  'move.title': 'Move {{name}} to another host',
  'move.text':
    'A running guest keeps running while its disk is copied. It is stopped only for the last changes. Until then, the task can be canceled.',
  'move.offlineText':
    'The guest is shut down during the move. Its whole disk is copied, and then it is started on the new host. If the move fails, it is started on its present host.',
  'move.liveText':
    'The virtual machine keeps running while its disk and memory are copied. It is paused only briefly, usually for about a second. Until then, the task can be canceled.',
  'move.live': 'The virtual machine keeps running. It is paused only for the last part of its memory and its disk.',
  'move.shutDownMachine':
    'Shut the guest down before its disk is copied. This is needed if the hosts differ, or if the guest has a TPM.',
  'move.stoppedText': 'The guest stays stopped. Its disk is copied to the new host.',
  'move.shutDown': 'Shut the guest down before its disk is copied. This helps if it writes a lot.',
  'move.shutsDown': 'The guest is shut down until its disk has been copied. Customers cannot reach it meanwhile.',
  'move.target': 'New host',
  'move.oldAgent': 'agent too old',
  'move.bandwidth': 'Bandwidth limit (Mbit/s)',
  'move.bandwidthHint': 'Leave empty for no limit.',
  'move.downtime': 'Pause for the rest of the memory (ms)',
  'move.downtimeHint':
    'The virtual machine is paused once the rest of its memory can be sent in this time. Leave empty for 500. A larger value helps if it changes its memory quickly.',
  'move.check': 'Check the move',
  'move.checkText': 'The check changes nothing. It shows which addresses and ports the guest gets.',
  'move.confirm': 'Move {{name}} to {{host}}?',
  'move.start': 'Move',
  'move.another': 'Choose another host',
  'move.item': 'Address or port',
  'move.on': 'On {{host}}',
  'move.result': 'Result',
  'move.changes': 'Changes',
  'move.same': 'Same',
  'move.hostAddress': 'Public address of the host',
  'move.port': 'Public port for {{protocol}} {{port}}',
  'move.otherAddresses': 'After the move, customers reach the guest at other addresses or ports.',
  'move.sameAddresses': 'The guest keeps its public addresses and ports.',
  'move.stays':
    'The agent of one host is too old to move these data. Tasks and alerts stay on {{host}}. The usage history is lost.',
  'move.stays.usage_history': 'Usage history',
  'move.stays.tasks': 'Earlier tasks',
  'move.stays.alerts': 'Alerts',
  'move.notReserved': 'The check reserves nothing. New addresses and ports can still change until the move begins.',
  'move.started': '{{name}} is moving to {{host}}. The tasks show the progress.',
  'move.reserved': 'Reserved addresses and ports of {{name}}',
  'move.reservedText':
    'The move has begun. Some addresses or ports differ from those that the check showed. These are reserved now.',
} as const
