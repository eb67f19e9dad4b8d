import { upgradeStateOf, type HostUpgrade } from '../join/host-upgrade.js'
import { isUpgrading, type FleetRun, type RunHost } from './fleet-run.js'

/** Facts about a host. They determine the next step of a run. */
export interface RunHostFacts {
  readonly online: boolean
  readonly version: string
  /** True if the host can install another version of the agent. */
  readonly upgradable: boolean
  /** Earlier version whose packages the host retains for a rollback. "": the host retains no earlier version. */
  readonly previousVersion: string
  readonly upgrade: HostUpgrade | undefined
}

export interface RunFacts {
  /** @returns undefined if the host was removed */
  readonly factsOf: (hostId: string) => RunHostFacts | undefined
  /** Version to which this gateway upgrades hosts. */
  readonly version: string
  readonly nowMs: number
}

/**
 * Plans the next state of a run: records the results of hosts, and lets further hosts begin. A host that begins its
 * upgrade gets the state `upgrading` and the id of the upgrade. Returns the same run if nothing changes.
 */
export function planRun(run: FleetRun, facts: RunFacts): FleetRun {
  const { factsOf, nowMs } = facts
  const settled = replaceHosts(run, (host) => settle(run, host, factsOf(host.hostId)))
  const stopped = stopAtFailure(settled)
  return end(beginNext(stopped, facts), nowMs)
}

/** Records that a host has refused to begin its upgrade. */
export function refuseHost(run: FleetRun, refused: RunHost, message: string): FleetRun {
  return replaceHosts(run, (host) =>
    host.upgradeId === refused.upgradeId ? { ...host, state: 'failed', message } : host,
  )
}

/** Records that a host already had the version. */
export function completeHost(run: FleetRun, completed: RunHost): FleetRun {
  return replaceHosts(run, (host) =>
    host.upgradeId === completed.upgradeId ? { ...host, state: 'done', upgradeId: '' } : host,
  )
}

function replaceHosts(run: FleetRun, replace: (host: RunHost) => RunHost): FleetRun {
  const hosts = run.hosts.map(replace)
  return hosts.every((host, index) => host === run.hosts[index]) ? run : { ...run, hosts }
}

function settle(run: FleetRun, host: RunHost, facts: RunHostFacts | undefined): RunHost {
  if (host.state !== 'upgrading') return host
  if (!facts) return { ...host, state: 'failed', message: 'the host was removed' }
  if (facts.upgrade?.id !== host.upgradeId) return host
  const state = upgradeStateOf(facts.upgrade)
  if (state === 'running') return host
  const { message } = facts.upgrade
  // The host began its upgrade before the operator requested a rollback. If the upgrade has succeeded, the host must
  // still be rolled back. If it has failed, the host already has the old version.
  if (host.action !== run.action) return { ...host, state: state === 'done' ? 'waiting' : 'skipped', message }
  return { ...host, state, message: state === 'done' ? '' : message }
}

function stopAtFailure(run: FleetRun): FleetRun {
  const failed = run.hosts.some(({ state }) => state === 'failed')
  return run.state === 'running' && failed ? { ...run, state: 'stopped' } : run
}

function beginNext(run: FleetRun, facts: RunFacts): FleetRun {
  if (run.state !== 'running') return run
  const canary = run.action === 'upgrade' ? run.hosts.find(({ hostId }) => hostId === run.canaryHostId) : undefined
  if (canary && canary.state === 'skipped') return { ...run, state: 'stopped' }
  const onlyCanary = canary !== undefined && canary.state !== 'done'
  let free = (onlyCanary ? 1 : run.parallel) - run.hosts.filter(({ state }) => state === 'upgrading').length
  return replaceHosts(run, (host) => {
    if (host.state !== 'waiting' || free <= 0 || (onlyCanary && host !== canary)) return host
    const next = beginHost(run, host, facts)
    if (next.state === 'upgrading') free--
    return next
  })
}

function beginHost(run: FleetRun, host: RunHost, { factsOf, version }: RunFacts): RunHost {
  const facts = factsOf(host.hostId)
  const skip = (message: string): RunHost => ({ ...host, state: 'skipped', message })
  if (!facts) return skip('the host was removed')
  if (run.action === 'upgrade' && facts.version === run.version) return { ...host, state: 'done' }
  // The gateway installs its own version. If the gateway was updated during the run, the canary did not test it.
  if (run.action === 'upgrade' && version !== run.version)
    return skip(`the gateway was changed to version ${version} meanwhile`)
  if (!facts.online) return skip('the host is offline')
  if (!facts.upgradable) return skip('the gateway cannot upgrade the agent of this host')
  if (run.action === 'rollback' && facts.previousVersion === '')
    return skip('the host retains no packages of a previous version')
  const attempts = host.attempts + 1
  const upgradeId = `${run.id}-${host.hostId}-${attempts}`
  return { ...host, state: 'upgrading', message: '', action: run.action, attempts, upgradeId }
}

/** Ends a run when no host is left to change. The state `running` becomes `done`; `stopped` and `canceled` stay. */
function end(run: FleetRun, nowMs: number): FleetRun {
  const isLeft = run.hosts.some(({ state }) => state === 'waiting') || isUpgrading(run)
  if (isLeft || run.endedAtMs !== 0 || run.state === 'paused') return run
  return { ...run, state: run.state === 'running' ? 'done' : run.state, endedAtMs: nowMs }
}
