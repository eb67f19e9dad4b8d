/** What the endpoints of each tag are for, for the document. */
export const tagTexts: Readonly<Record<string, string>> = {
  'API keys': 'Keys of programs. A key gives only what it holds itself.',
  Accounts:
    'People who log in: administrators, and sub-users, who see and use the containers they were given.',
  Backups: 'States of containers that are kept elsewhere, encrypted, and the places where.',
  Consoles: 'Tickets for terminals and screens in a browser.',
  Containers: 'Containers: create, look at, start, stop, change, delete. Actions answer with a task.',
  Events: 'What changes, as it changes.',
  Firewall: 'What may reach a container, and what it may reach.',
  Hosts: 'The machines that containers are on, and how they join.',
  Images: 'Images on the hosts.',
  Logs: 'Who changed what, and who logged in.',
  Overview: 'The fleet and its hosts at a glance.',
  Ports: 'Ports of a host that lead to a container.',
  Routing: 'Public addresses and port ranges of a host, and who has what of them.',
  Security: 'What was noticed of containers that are misused.',
  Settings: 'Settings of a host and of this interface.',
  Snapshots: 'States of containers that were kept.',
  Tasks: 'What was queued: how far it is, and how it ended.',
  Templates: 'What containers can be created from.',
  Traffic: 'What a container sent and received, and how much it may.',
  Webhooks: 'Telling other programs what happens.',
}
