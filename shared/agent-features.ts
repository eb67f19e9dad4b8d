/**
 * Optional functions of agents. Each agent reports the functions that it has. A gateway only calls functions that the
 * agent has reported, because an older agent does not know newer functions.
 * - `upgrade`: the agent can install another version of itself; only for hosts that their gateway installed.
 * - `move`: the host can send containers to other hosts and receive them.
 * - `move-offline`: the host can shut guests down for a move, and can send and receive virtual machines.
 * - `move-live`: the host can send and receive virtual machines while they run.
 * - `fence`: the agent refuses calls of a gateway whose lease another gateway has taken over (see fence.ts). Gateways
 *   also send fences to older agents, which ignore them.
 * - `list-usage`: the agent can list the resource usage of all its guests.
 * - `rotate-ca`: the agent can trust several certificate authorities, which the gateway replaces while the fleet runs.
 * - `labels`: guests have tags, a note and a protection against deletion.
 * - `undelete`: a deleted guest can be retained for some time, so that its deletion can be undone.
 * - `run`: programs can be run in containers without a terminal.
 * - `placement`: guests have placement rules, which the agent stores and the gateway applies.
 * - `rename`: the name of a guest can change.
 * - `create-tags`: guests can have tags from their creation on.
 * - `create-from-backup`: a guest can be created from a backup, also in place of a guest of a failed host.
 * - `confirm-owners`: after a boot, the host starts guests only when a gateway has checked which belong to other hosts.
 * - `create-settings`: guests can have a firewall and a backup schedule from their creation on.
 * - `delete-copy`: old copies of guests that belong to other hosts can be deleted.
 * - `export`: containers can be exported as archives.
 * - `import-archive`: containers can be created from archives that a gateway sends.
 * - `standby`: the host can send increments of containers to other hosts, and can store such copies as warm standbys.
 * - `keep-copy`: the host can keep the disk of a guest that it has handed over, if the guest was restored elsewhere.
 * - `move-history`: ended tasks, alerts and usage history move with a guest.
 */
export const agentFeatures = [
  'upgrade',
  'move',
  'move-offline',
  'move-live',
  'fence',
  'rotate-ca',
  'list-usage',
  'labels',
  'undelete',
  'placement',
  'run',
  'rename',
  'create-tags',
  'create-from-backup',
  'confirm-owners',
  'create-settings',
  'delete-copy',
  'export',
  'import-archive',
  'standby',
  'keep-copy',
  'move-history',
] as const
export type AgentFeature = (typeof agentFeatures)[number]
