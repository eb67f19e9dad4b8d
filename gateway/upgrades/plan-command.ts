import { conflict } from '../../shared/errors.js'
import { isActive, isUpgrading, type FleetRun, type RunHost } from './fleet-run.js'

/* Commands of an operator for an upgrade of the fleet. An upgrade of a host that has begun is always completed. */

export const runCommands = ['pause', 'resume', 'cancel', 'rollback'] as const
export type RunCommand = (typeof runCommands)[number]

/** @throws {BerthError} `invalid_state` */
export function planCommand(run: FleetRun | null, command: RunCommand): FleetRun {
  if (!run) throw conflict('invalid_state', 'no upgrade of the fleet has been started')
  return plans[command](run)
}

/** @throws {BerthError} `upgrade_running` */
export function refuseSecondRun(run: FleetRun | null): void {
  if (!run || !isActive(run)) return
  throw conflict('upgrade_running', `an upgrade of the fleet is ${run.state}: cancel it, or wait for its end`)
}

const plans: Readonly<Record<RunCommand, (run: FleetRun) => FleetRun>> = {
  pause: (run) => {
    refuseUnless(run, ['running'], 'paused')
    return { ...run, state: 'paused' }
  },
  // `resume` lets failed hosts begin again, and also a skipped canary, which is upgraded before all other hosts.
  resume: (run) => {
    refuseUnless(run, ['paused', 'stopped'], 'resumed')
    const retried = (host: RunHost): RunHost => ({ ...host, state: 'waiting', message: '' })
    const isRetried = (host: RunHost): boolean =>
      host.state === 'failed' || (host.state === 'skipped' && host.hostId === run.canaryHostId)
    return {
      ...run,
      state: 'running',
      endedAtMs: 0,
      hosts: run.hosts.map((host) => (isRetried(host) ? retried(host) : host)),
    }
  },
  cancel: (run) => {
    refuseUnless(run, ['running', 'paused', 'stopped'], 'canceled')
    return { ...run, state: 'canceled', hosts: run.hosts.map((host) => skipWaiting(host, 'canceled')) }
  },
  rollback: (run) => {
    if (run.action === 'rollback') throw conflict('invalid_state', 'a rollback of the fleet was started already')
    if (!isUpgrading(run) && !run.hosts.some(wasUpgraded))
      throw conflict('invalid_state', 'nothing can be rolled back: the upgrade of the fleet has not upgraded any host')
    return { ...run, action: 'rollback', state: 'running', endedAtMs: 0, hosts: run.hosts.map(rollBack) }
  },
}

function refuseUnless(run: FleetRun, states: readonly FleetRun['state'][], done: string): void {
  if (!states.includes(run.state))
    throw conflict('invalid_state', `the upgrade of the fleet is ${run.state} and cannot be ${done}`)
}

const wasUpgraded = ({ state, upgradeId }: RunHost): boolean => state === 'done' && upgradeId !== ''

/** Plans the rollback of a host if this run has upgraded it. Failed hosts already have their earlier version again. */
function rollBack(host: RunHost): RunHost {
  if (wasUpgraded(host)) return { ...host, state: 'waiting' }
  if (host.state === 'upgrading') return host
  return { ...host, state: 'skipped', message: host.message || 'the host was not upgraded' }
}

function skipWaiting(host: RunHost, message: string): RunHost {
  return host.state === 'waiting' ? { ...host, state: 'skipped', message } : host
}
