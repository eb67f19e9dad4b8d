import type { FleetUpgrade, Host } from '../../api/types.ts'

/** The steps of an upgrade that goes well, in order. */
export const upgradeSteps = ['starting', 'checking', 'downloading', 'installing', 'waiting', 'done'] as const
export type UpgradeStep = NonNullable<Host['upgrade']>['step']

/** Returns the steps of a host's upgrade. A rollback downloads nothing, because the host retains the packages. */
export function stepsOf({ rollback }: NonNullable<Host['upgrade']>): readonly UpgradeStep[] {
  return upgradeSteps.filter((step) => !rollback || step !== 'downloading')
}

export function isUpgrading({ upgrade }: Pick<Host, 'upgrade'>): boolean {
  return upgrade?.state === 'running'
}

/** True if the host has another version and can be upgraded from the panel now. */
export function canUpgrade(host: Pick<Host, 'upgrade' | 'status' | 'outdated' | 'features'>): boolean {
  return host.outdated && canChangeVersion(host)
}

export function canRollBack(host: Pick<Host, 'upgrade' | 'status' | 'features' | 'previous_version'>): boolean {
  return host.previous_version !== '' && canChangeVersion(host)
}

function canChangeVersion(host: Pick<Host, 'upgrade' | 'status' | 'features'>): boolean {
  return host.status === 'online' && host.features.includes('upgrade') && !isUpgrading(host)
}

export type FleetCommand = 'pause' | 'resume' | 'cancel' | 'rollback'

/** Returns the commands that an upgrade of the fleet accepts now. */
export function commandsOf({ state, action, hosts }: FleetUpgrade): readonly FleetCommand[] {
  const isOpen = state === 'running' || state === 'paused' || state === 'stopped'
  const hasChanged = hosts.some((host) => host.state === 'upgrading' || (host.state === 'done' && host.step !== ''))
  return [
    ...(state === 'running' ? (['pause'] as const) : []),
    ...(state === 'paused' || state === 'stopped' ? (['resume'] as const) : []),
    ...(isOpen ? (['cancel'] as const) : []),
    ...(action === 'upgrade' && hasChanged ? (['rollback'] as const) : []),
  ]
}

/** True if another upgrade of the fleet can begin. */
export function mayBegin({ state, hosts }: FleetUpgrade): boolean {
  return state !== 'running' && state !== 'paused' && hosts.every((host) => host.state !== 'upgrading')
}
