import Database from 'better-sqlite3'
import { join } from 'node:path'
import type { FailoverLab, LabGateway } from './failover-lab.js'
import type { Findings } from './findings.js'
import type { CreatedGuest, GuestWriters } from './guest-writers.js'
import type { KeyWriters } from './key-writers.js'
import type { AgentsReport, FencedCall, ReportedGuest } from './lab-agents.js'
import type { SettingWriters } from './setting-writers.js'

export interface Writers {
  readonly guests: GuestWriters
  readonly keys: KeyWriters
  readonly settings: SettingWriters
}

/** Compares the journals of all agents and the answers of all gateways with the acknowledged writes. */
export async function compareFinalState(lab: FailoverLab, recorded: Writers, findings: Findings): Promise<void> {
  const report = await lab.report()
  const inJournals = [...report.agents.flatMap(({ guests }) => guests), ...readRealGuests(lab)]
  checkGuests(inJournals, recorded, findings)
  checkSteps(report, findings)
  for (const calls of report.fenced) checkFences(calls, findings)
  for (const gateway of lab.gateways) {
    await checkGuestList(gateway, inJournals, findings)
    await checkKeys(gateway, recorded.keys, findings)
    await checkSettings(gateway, recorded.settings, findings)
  }
}

/** Reads guests in the journals of hosts with a real agent. */
function readRealGuests(lab: FailoverLab): ReportedGuest[] {
  return lab.hosts.flatMap(({ real }) => {
    if (!real) return []
    const db = new Database(join(real.instance.stateDir, 'journal.db'), { readonly: true })
    try {
      return db.prepare('SELECT name, uuid, 0 AS expiresAtMs FROM guests').all() as ReportedGuest[]
    } finally {
      db.close()
    }
  })
}

function checkGuests(inJournals: readonly ReportedGuest[], { guests }: Writers, findings: Findings): void {
  const uuids = new Map<string, string[]>()
  for (const { name, uuid } of inJournals) uuids.set(name, [...(uuids.get(name) ?? []), uuid])
  for (const [name, all] of uuids) {
    if (all.length > 1) findings.twice.push(`guest ${name} exists ${all.length} times`)
    if (guests.deleted.has(name)) findings.lost.push(`deletion of guest ${name}`)
    const isKnown = name.startsWith('sim-') || guests.created.has(name) || guests.uncertain.has(name)
    if (!isKnown) findings.unexpected.push(`guest ${name} exists, but its creation was not acknowledged`)
  }
  for (const { name, uuid } of remaining(guests))
    if (!uuids.get(name)?.includes(uuid)) findings.lost.push(`guest ${name}`)
}

/** Guests that must exist: the creation was acknowledged, and no deletion was acknowledged or has an unknown result. */
function remaining({ created, deleted, uncertain }: GuestWriters): CreatedGuest[] {
  return [...created.values()].filter(({ name }) => !deleted.has(name) && !uncertain.has(name))
}

function checkSteps({ agents }: AgentsReport, findings: Findings): void {
  const owners = new Map<string, string>()
  for (const { name, steps } of agents)
    for (const [step, count] of Object.entries(steps)) {
      if (count > 1) findings.twice.push(`step ${step} ran ${count} times at ${name}`)
      const other = owners.get(step)
      if (other !== undefined) findings.twice.push(`step ${step} ran at ${name} and ${other}`)
      owners.set(step, name)
    }
}

/** Checks that every call with an epoch below an earlier accepted epoch of the same work was refused. */
function checkFences(calls: readonly FencedCall[], findings: Findings): void {
  const highest = new Map<string, number>()
  for (const { work, epoch, isStale } of calls) {
    const known = highest.get(work) ?? 0
    if (!isStale && epoch < known) findings.fences.push(`${work}: epoch ${epoch} was accepted after ${known}`)
    if (!isStale) highest.set(work, Math.max(known, epoch))
  }
}

async function checkGuestList(
  { client, host }: LabGateway,
  inJournals: readonly ReportedGuest[],
  findings: Findings,
): Promise<void> {
  const { body } = await client.send('GET', '/containers')
  const listed = new Set((body.data as { uuid: string }[]).map(({ uuid }) => uuid))
  for (const { name, uuid } of inJournals)
    if (!listed.delete(uuid)) findings.lost.push(`guest ${name} is missing at gateway ${host}`)
  for (const uuid of listed) findings.unexpected.push(`guest ${uuid} at gateway ${host} is in no journal`)
}

async function checkKeys({ client, host }: LabGateway, keys: KeyWriters, findings: Findings): Promise<void> {
  const { body } = await client.send('GET', '/api-keys')
  const counts = new Map<string, number>()
  for (const { name } of body.data as { name: string }[]) counts.set(name, (counts.get(name) ?? 0) + 1)
  for (const [name, count] of counts) {
    if (count > 1) findings.twice.push(`${name} exists ${count} times at gateway ${host}`)
    if (keys.deleted.has(name)) findings.lost.push(`deletion of ${name} at gateway ${host}`)
  }
  for (const name of keys.kept)
    if (!counts.has(name) && !keys.uncertain.has(name)) findings.lost.push(`${name} at gateway ${host}`)
}

async function checkSettings(
  { client, host }: LabGateway,
  settings: SettingWriters,
  findings: Findings,
): Promise<void> {
  const { body } = await client.send('GET', '/containers')
  const rows = new Map((body.data as { name: string; expires_at: string }[]).map((row) => [row.name, row.expires_at]))
  for (const { name, expiry } of settings.guests)
    if (expiry !== '' && rows.get(name) !== expiry)
      findings.lost.push(`expiry ${expiry} of ${name} at gateway ${host}, which shows ${rows.get(name)}`)
}
