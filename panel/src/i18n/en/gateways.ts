/** Texts about the gateways of the fleet. */
export const gateways = {
  'gateways.text': 'Servers that answer the API and serve this panel. Any of them may fail.',
  'gateways.none': 'No gateways yet.',
  'gateways.add': 'Add a gateway',
  'gateways.invite': 'Create command',
  'gateways.addText':
    'The new gateway receives the certificate authority and all secrets of the fleet. Run its command only on a server that you trust.',
  'gateways.nameHint': 'Optional. Default: the host name of the server.',
  'gateways.command': 'Command for the new gateway',
  'gateways.commandText':
    'Install the package berth-gateway on the server, then run this command as root before {{time}}.',
  'gateways.answers': 'answers this page',
  'gateways.until': 'until {{time}}',
  'gateways.load': 'Load',
  'gateways.loadValue': '{{percent}} % of a CPU, {{mb}} MiB',
  'gateways.leases': 'Work for the fleet',
  'gateways.lease.webhook-lease': 'Delivers webhooks',
  'gateways.lease.fleet-upgrade-worker': 'Upgrades hosts',
  'gateways.started': 'Started',
  'gateways.removeAsk': 'Remove {{name}}?',
  'gateways.removeText':
    'The gateway stops. Its server keeps the secrets of the fleet: delete them there, or change the password of Redis.',
  'status.invited': 'Invited',
} as const
