import type { AuthorityFact, FleetFacts, GatewayFact, HostFact, HostUsageFact, SslFact, TaskFact } from './facts.js'

/* This module derives the problems of a fleet from the answers of the API. */

export interface Problem {
  /** Stable word for scripts. */
  readonly code: string
  /** Host, gateway or guest with the problem. Empty: the fleet. */
  readonly subject: string
  readonly message: string
  /** The next step for the user. */
  readonly next: string
}

const dayMs = 86_400_000
const limits = { certificateDays: 14, authorityDays: 60, diskPercent: 90, diskFullDays: 7, poolPercent: 95, tasks: 10 }

/** Returns the problems, the most urgent first. */
export function planProblems(facts: FleetFacts): Problem[] {
  const { hosts = [], usage, gateways = [], failedTasks = [], ssl, authority, upgrade } = facts
  const nowMs = parseTime(facts.now)
  const nameOf = (id: string): string => hosts.find((host) => host.id === id)?.name ?? id
  return [
    ...gateways.flatMap((gateway) => gatewayProblems(gateway, gateways)),
    ...hosts.flatMap((host) => [...stateProblems(host), ...hostProblems(host, nowMs)]),
    ...(usage?.hosts ?? []).flatMap((one) => capacityProblems(one, nameOf(one.host_id))),
    ...(ssl ? sslProblems(ssl, nowMs) : []),
    ...(authority ? authorityProblems(authority, nowMs) : []),
    ...(upgrade?.state === 'stopped' ? [stoppedUpgrade(upgrade.version)] : []),
    ...taskProblems(failedTasks, nowMs),
  ]
}

/** Reads a time of the API. The time zone does not matter, because only differences between times are used. */
export function parseTime(text: string): number {
  return text === '' ? 0 : Date.parse(`${text.replace(' ', 'T')}Z`)
}

function gatewayProblems({ name, state, version }: GatewayFact, all: readonly GatewayFact[]): Problem[] {
  if (state === 'offline')
    return [
      {
        code: 'gateway_offline',
        subject: name,
        message: `Gateway ${name} is offline.`,
        next: `On its server: systemctl status berth-gateway. If it will not return: berth gateway remove ID`,
      },
    ]
  const own = all.find(({ answers }) => answers)
  if (state !== 'online' || own === undefined || own.version === version) return []
  const message = `Gateway ${name} has version ${version}, but this gateway has ${own.version}.`
  const next = 'Upgrade the older one: apt-get update && apt-get install --only-upgrade berth-gateway'
  return [{ code: 'gateway_version', subject: name, message, next }]
}

function stateProblems({ name, status, last_seen: seen, install }: HostFact): Problem[] {
  if (status === 'offline') {
    const message = `Host ${name} is offline${seen === '' ? '' : ` since ${seen}`}. Its guests may still be running.`
    const next = 'Check its power and network. On the host: systemctl status berth-agent'
    return [{ code: 'host_offline', subject: name, message, next }]
  }
  if (status !== 'pending') return []
  if (install?.step === 'failed') {
    const message = `The installation of the agent on host ${name} failed: ${install.message}`
    const next = `Run the command again, with a new token: berth host create-join-token ${name}`
    return [{ code: 'host_install_failed', subject: name, message, next }]
  }
  const message = `No agent has joined host ${name} yet.`
  const next = `Install it with a new token: berth host create-join-token ${name}; or remove the host: berth host delete ${name}`
  return [{ code: 'host_pending', subject: name, message, next }]
}

function hostProblems(host: HostFact, nowMs: number): Problem[] {
  const { name, status, warnings } = host
  if (status === 'pending') return []
  const reported = warnings.map((warning) => ({
    code: 'host_warning',
    subject: name,
    message: `Host ${name}: ${warning}`,
    next: `See berth host report --host ${name}`,
  }))
  return [...reported, ...expiryProblem(host, nowMs), ...versionProblem(host)]
}

function versionProblem({ name, status, outdated, version, upgrade }: HostFact): Problem[] {
  if (upgrade?.state === 'failed') {
    const message = `The upgrade of host ${name} to ${upgrade.to} failed: ${upgrade.message || 'no reason is known'}`
    return [{ code: 'host_upgrade_failed', subject: name, message, next: `Try again: berth host upgrade ${name}` }]
  }
  if (!outdated || status !== 'online' || upgrade?.state === 'running') return []
  const message = `The agent of host ${name} has another version than the gateway: ${version || 'unknown'}.`
  const next = `Upgrade all hosts: berth fleet upgrade; or only this one: berth host upgrade ${name}`
  return [{ code: 'host_outdated', subject: name, message, next }]
}

function expiryProblem({ name, certificate_expires_at: expiry }: HostFact, nowMs: number): Problem[] {
  const verb = expiryVerb(expiry, nowMs, 0)
  if (verb === undefined) return []
  const message = `The certificate of host ${name} ${verb} ${expiry}.`
  const next = 'It renews itself once the host is online with the right time. On the host: journalctl -u berth-agent'
  return [{ code: 'host_certificate', subject: name, message, next }]
}

/** Returns `expired at` or `expires at` for a certificate; undefined: it is valid for longer than `days`. */
function expiryVerb(time: string, nowMs: number, days: number): string | undefined {
  if (time === '') return undefined
  const leftMs = parseTime(time) - nowMs
  if (leftMs <= 0) return 'expired at'
  return leftMs < days * dayMs ? 'expires at' : undefined
}

function capacityProblems(usage: HostUsageFact, name: string): Problem[] {
  const { disk_used_gb: used, disk_total_gb: total, disk_full_in_days: days, ports, public_ipv4: ipv4 } = usage
  const percent = used === null ? 0 : percentOf(used, total)
  const next = `Move guests away: berth guest list --host ${name}, berth migrate GUEST; or enlarge the storage pool`
  const disk =
    percent >= limits.diskPercent
      ? `The storage pool of host ${name} is ${percent} % full.`
      : days !== null && days <= limits.diskFullDays
        ? `The storage pool of host ${name} will be full in about ${Math.ceil(days)} days.`
        : undefined
  return [
    ...(disk === undefined ? [] : [{ code: 'host_disk', subject: name, message: disk, next }]),
    ...poolProblem(ports, 'ports', name),
    ...poolProblem(ipv4, 'public IPv4 addresses', name),
  ]
}

function poolProblem(pool: HostUsageFact['ports'], what: string, name: string): Problem[] {
  if (pool === null || percentOf(pool.used, pool.total) < limits.poolPercent) return []
  const message = `Host ${name} has only ${pool.total - pool.used} of ${pool.total} ${what} left.`
  return [{ code: 'host_pool', subject: name, message, next: `Add more: berth routing --help` }]
}

const percentOf = (used: number, total: number): number => (total > 0 ? Math.floor((used / total) * 100) : 0)

function sslProblems({ enabled, certificate, warnings }: SslFact, nowMs: number): Problem[] {
  const next = 'See berth ssl get, and docs/tls.md'
  const told = warnings.map((warning) => ({ code: 'tls_warning', subject: '', message: `TLS: ${warning}`, next }))
  const expiry = enabled ? (certificate?.not_after ?? '') : ''
  const renewsItself = certificate?.renews_at !== undefined && certificate.renews_at !== ''
  const verb = expiryVerb(expiry, nowMs, renewsItself ? 0 : limits.certificateDays)
  if (verb === undefined) return told
  const message = `The TLS certificate of the gateway ${verb} ${expiry}.`
  return [{ code: 'tls_certificate', subject: '', message, next: 'Replace it: berth ssl update --help' }, ...told]
}

function authorityProblems({ not_after: expiry, rotation }: AuthorityFact, nowMs: number): Problem[] {
  const isRunning = /^(distributing|reissuing|ready|ending)$/.test(rotation.state)
  if (isRunning && rotation.missing_hosts.length > 0) {
    const names = rotation.missing_hosts.map(({ name }) => name).join(', ')
    const message = `The replacement of the certificate authority waits for: ${names}.`
    return [{ code: 'authority_rotation', subject: '', message, next: 'See the reasons: berth fleet ca' }]
  }
  const verb = isRunning ? undefined : expiryVerb(expiry, nowMs, limits.authorityDays)
  if (verb === undefined) return []
  const message = `The certificate authority of the fleet ${verb} ${expiry}.`
  return [{ code: 'authority_expiry', subject: '', message, next: 'Replace it: berth fleet rotate-ca' }]
}

const stoppedUpgrade = (version: string): Problem => ({
  code: 'fleet_upgrade_stopped',
  subject: '',
  message: `The upgrade of the fleet to ${version} was stopped, because a host failed.`,
  next: 'See the reason: berth fleet upgrade-status; then: berth fleet resume-upgrade or berth fleet rollback-upgrade',
})

function taskProblems(tasks: readonly TaskFact[], nowMs: number): Problem[] {
  const recent = tasks.filter(({ finished_at: end }) => end !== '' && nowMs - parseTime(end) < dayMs)
  const shown = recent.slice(0, limits.tasks).map(taskProblem)
  const left = recent.length - shown.length
  const rest = { code: 'tasks_failed', subject: '', message: `${left} further tasks of the last day failed.` }
  return left > 0 ? [...shown, { ...rest, next: 'List them: berth task list --status failed' }] : shown
}

function taskProblem({ task_id: id, action, error, error_code: code, ...more }: TaskFact): Problem {
  const subject = more.container_name || more.image_id
  const name = [action, subject].filter(Boolean).join(' ')
  const message = `Task ${name} failed at ${more.finished_at}: ${error || 'no reason is known'} (${code || 'task_failed'})`
  return {
    code: 'task_failed',
    subject,
    message,
    next: `See it: berth task get ${id}; forget it: berth task delete ${id}`,
  }
}
