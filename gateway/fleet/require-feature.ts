import type { AgentFeature } from '../../shared/agent-features.js'
import { conflict, type BerthError } from '../../shared/errors.js'
import type { HostView } from './contract.js'
import { cannotCreateFromBackup, cannotImport, cannotLabel, cannotMove } from './placement/plan-placement.js'

/**
 * Features that requests can require with `requireFeature`. Other code checks most of the excluded features. `fence`
 * and `list-usage` need no check. Old agents ignore fences, and their usage is shown as unknown.
 */
type RequiredFeature = Exclude<
  AgentFeature,
  | 'move-offline'
  | 'move-live'
  | 'fence'
  | 'rotate-ca'
  | 'list-usage'
  | 'create-tags'
  | 'confirm-owners'
  | 'create-settings'
  | 'keep-copy'
  | 'move-history'
>

const missing: Readonly<Record<RequiredFeature, (name: string) => BerthError>> = {
  move: cannotMove,
  labels: cannotLabel,
  placement: cannotLabel,
  'create-from-backup': cannotCreateFromBackup,
  'import-archive': cannotImport,
  undelete: (name) =>
    conflict(
      'agent_outdated',
      `the agent of ${name} is too old for deletions that can be undone: upgrade it first, or delete with now=true`,
    ),
  'delete-copy': (name) =>
    conflict('agent_outdated', `the agent of ${name} is too old to delete old copies: upgrade it first`),
  export: (name) =>
    conflict('agent_outdated', `the agent of ${name} is too old to export containers: upgrade it first`),
  rename: (name) =>
    conflict('agent_outdated', `the agent of ${name} is too old to rename containers: upgrade it first`),
  run: (name) =>
    conflict('agent_outdated', `the agent of ${name} is too old to run programs in containers: upgrade it first`),
  standby: (name) => conflict('agent_outdated', `the agent of ${name} is too old for warm standbys: upgrade it first`),
  upgrade: (name) =>
    conflict(
      'upgrade_unsupported',
      `the gateway cannot upgrade ${name}: its agent was not installed with the command of this gateway, or is too old. ` +
        'Run the command of POST /hosts/ID/join-token on the host once. If the host has its own gateway, or Berth runs from ' +
        'a checkout, upgrade Berth on the host itself',
    ),
}

/** @throws {BerthError} for a host whose agent does not declare the feature */
export function requireFeature({ name, description }: HostView, feature: RequiredFeature): void {
  if (!description?.features.includes(feature)) throw missing[feature](name)
}
