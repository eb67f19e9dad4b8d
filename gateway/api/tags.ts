/** What the endpoints of each tag are for, for the document. */
export const tagTexts: Readonly<Record<string, string>> = {
  'API keys': 'Keys for programs. A key cannot grant more rights than it has itself.',
  Accounts:
    'People who log in: administrators, and sub-users, who see and use the containers assigned to them.',
  Backups: 'Encrypted backups of containers on external targets.',
  Consoles: 'Tickets for terminals and screens in a browser.',
  Containers: 'Containers: create, list, start, stop, change and delete them. Actions answer with a task.',
  Events: 'Streams of changes, as they happen.',
  Firewall: 'Rules for the connections to and from a container.',
  Hosts: 'Hypervisors of the fleet, and how they join it.',
  Images: 'Images on the hosts.',
  Logs: 'Logs of changes and of logins.',
  Overview: 'State of the fleet and its hosts.',
  Ports: 'Mappings of host ports to containers.',
  Routing: 'Public addresses and port ranges of a host, and their assignments.',
  Security: 'Alerts about containers that attack or abuse other systems.',
  Settings: 'Settings of a host and of this API.',
  Snapshots: 'Snapshots of containers on their hosts.',
  Tasks: 'Queued actions: their progress and results.',
  Templates: 'Templates for new containers.',
  Traffic: 'Traffic of containers and its quotas.',
  Webhooks: 'Notifications of other programs about changes.',
}
