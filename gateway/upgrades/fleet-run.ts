/** `stopped`: a host failed. `done`: no host is left to change. */
export const runStates = ['running', 'paused', 'stopped', 'canceled', 'done'] as const
export type RunState = (typeof runStates)[number]

export const runHostStates = ['waiting', 'upgrading', 'done', 'failed', 'skipped'] as const
export type RunHostState = (typeof runHostStates)[number]

export type RunAction = 'upgrade' | 'rollback'

/** State of a host in an upgrade of the fleet. */
export interface RunHost {
  readonly hostId: string
  readonly name: string
  readonly state: RunHostState
  /** Version of the agent before the run. */
  readonly from: string
  /** Why the upgrade or rollback of the host failed, or why the host was skipped. */
  readonly message: string
  /** Kind of the last attempt on this host. It can differ from the run's `action`. */
  readonly action: RunAction
  /** Id of the last attempt on this host. "": there was no attempt yet. */
  readonly upgradeId: string
  readonly attempts: number
}

/** A stored upgrade of all hosts, or the rollback of such an upgrade. */
export interface FleetRun {
  readonly id: string
  readonly state: RunState
  readonly action: RunAction
  /** Version to which hosts are upgraded. */
  readonly version: string
  readonly parallel: number
  /** Host that is upgraded before all others. */
  readonly canaryHostId: string
  readonly hosts: readonly RunHost[]
  readonly startedBy: string
  readonly startedAtMs: number
  /** End of the upgrade in ms since 1970. 0: it has not ended. */
  readonly endedAtMs: number
}

export function isUpgrading(run: FleetRun): boolean {
  return run.hosts.some(({ state }) => state === 'upgrading')
}

/** True while the upgrade of the fleet can still change hosts by itself. */
export function isActive(run: FleetRun): boolean {
  return run.state === 'running' || run.state === 'paused' || isUpgrading(run)
}
