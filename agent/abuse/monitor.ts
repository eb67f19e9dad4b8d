import { SingleFlight } from '../../shared/async/single-flight.js'
import type { OpenedFlow } from '../host/net/flows-of.js'
import type { PacketReport } from '../host/net/packet-log.js'
import type { GuestContext } from '../guests/context.js'
import { networkOf, sendsMail } from '../guests/resources/network.js'
import type { GuestRecord } from '../guests/record/record.js'
import { AddressOwners } from './address-owners.js'
import type { AbuseSensor, Evidence, Finding } from './contract.js'
import { EvidenceStore } from './evidence-store.js'
import type { GuestEvidence } from './guest-evidence.js'
import { isNews, lastSeenMs } from './plan-going-on.js'
import { detect, isSuspect, isUnchecked } from './plan-detect.js'
import { isOpen, planAlert, planAlertPlace, planSamples, type AlertGuest } from './plan-merge.js'
import { noCounts } from './plan-counts.js'
import type { AbuseShutdown } from './shutdown.js'
import type { AlertRecord, AlertStore } from './alert-store.js'

/** Maximum number of guests whose flows one evaluation reads. Each read walks the whole connection tracking table. */
const suspectsAtOnce = 8
/** Interval in ms between two reads of all unanswered flows. */
const unrepliedEveryMs = 60_000
/** Seconds after which the kernel by default forgets an unanswered flow, by protocol. See `ageMsOf`. */
const unansweredSeconds: Readonly<Record<string, number>> = { tcp: 120, udp: 30, icmp: 30 }
/**
 * Maximum time in ms from a sampled packet to its report. Older samples are ignored, because the packet's address may
 * have belonged to another guest when the packet was sent.
 */
const sampledMs = 6000

export interface MonitorParts {
  readonly context: Pick<GuestContext, 'config' | 'store' | 'log' | 'now'>
  readonly sensor: AbuseSensor
  readonly alerts: AlertStore
  readonly shutdown: AbuseShutdown
}

export interface CheckSummary {
  readonly guests: number
  readonly alerts: number
}

/** Time in ms for which the result of a check is returned to further requests. */
const checkEveryMs = 5000

/** Watches guests for abuse: collects the sensor's observations, evaluates them, and writes alerts. */
export class AbuseMonitor {
  readonly #evidence = new EvidenceStore()
  readonly #owners = new AddressOwners()
  #timer: NodeJS.Timeout | undefined
  readonly #looking = new SingleFlight<CheckSummary>()
  #checked: { readonly atMs: number; readonly outcome: Promise<CheckSummary> } | undefined
  #unrepliedAtMs = 0
  #closed = false
  /** Numbers of sampled packets that were inspected (`seen`), and that were lost (`lost`). */
  readonly packets = { seen: 0, lost: 0 }

  constructor(private readonly parts: MonitorParts) {
    parts.sensor.onReport((report) => this.#take(report))
    parts.context.store.changes.onChange(({ kind, key, removed }) => {
      if (kind === 'guest') this.#guestChanged(key, removed)
    })
  }

  async start(): Promise<void> {
    const { security } = this.parts.context.config
    if (security.enabled) await this.#ensureSensor()
    else await this.#removeSensor()
    this.#timer = setInterval(() => void this.look(), security.interval_seconds * 1000)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    await this.#looking.settled()
  }

  /** Evaluates all guests now. Failures are only logged, because the next evaluation follows within seconds. */
  look(): Promise<CheckSummary> {
    return this.#looking.run(() => this.#look())
  }

  /** Evaluates all guests on request. For `checkEveryMs` afterwards, further calls return the same result. */
  async check(): Promise<CheckSummary> {
    const nowMs = this.parts.context.now()
    if (!this.#checked || nowMs - this.#checked.atMs >= checkEveryMs || nowMs < this.#checked.atMs)
      this.#checked = { atMs: nowMs, outcome: this.look() }
    return this.#checked.outcome
  }

  latestRows(uuid: string, count: number): ReturnType<GuestEvidence['latest']> {
    return this.#evidence.find(uuid)?.latest(count) ?? []
  }

  async #look(): Promise<CheckSummary> {
    const { context, shutdown } = this.parts
    try {
      const looked = context.config.security.enabled ? await this.#judgeAll() : { guests: 0, alerts: 0 }
      if (!this.#closed) await shutdown.look()
      return looked
    } catch (err) {
      context.log.error({ err }, 'could not check the guests for abuse')
      return { guests: 0, alerts: 0 }
    }
  }

  async #judgeAll(): Promise<CheckSummary> {
    const { context } = this.parts
    await this.#ensureSensor()
    const records = this.#readGuests()
    await this.#count(records)
    await this.#lookUp(records)
    if (this.#closed) return { guests: 0, alerts: 0 }
    const nowMs = context.now()
    const { store } = context
    const alerts = store.changes.transaction(() => {
      const open = this.parts.alerts.open(nowMs)
      return records.reduce((count, record) => count + this.#judge(record, open, nowMs), 0)
    })
    this.#evidence.prune(nowMs, this.#readGuests())
    return { guests: records.length, alerts }
  }

  /** Restores the sensor's nft rules, because other programs may have flushed all rules of the host. */
  async #ensureSensor(): Promise<void> {
    try {
      await this.parts.sensor.ensure()
    } catch (err) {
      this.parts.context.log.error({ err }, 'could not install the rules that detect abuse')
    }
  }

  /** Removes nft rules of the sensor that remain from an earlier run of the agent in which the watch was enabled. */
  async #removeSensor(): Promise<void> {
    try {
      await this.parts.sensor.remove()
    } catch (err) {
      this.parts.context.log.error({ err }, 'could not remove the rules that detect abuse')
    }
  }

  #readGuests(): readonly GuestRecord[] {
    const { store, now } = this.parts.context
    const records = store.list()
    this.#owners.update(records, now())
    return records
  }

  #take({ samples, seen, lost }: PacketReport): void {
    this.packets.seen += seen
    this.packets.lost += lost
    this.#readGuests()
    const nowMs = this.parts.context.now()
    for (const sample of samples) {
      const uuid = this.#owners.findOwner(sample.guest, nowMs - sampledMs)
      if (uuid !== undefined) this.#evidence.of(uuid).addSample(sample, nowMs)
    }
  }

  async #count(records: readonly GuestRecord[]): Promise<void> {
    const { context, sensor } = this.parts
    const counts = await sensor.readCounts(records.map((record) => networkOf(record, context.config)))
    const nowMs = context.now()
    for (const { uuid } of records) this.#evidence.of(uuid).addCounts(counts.get(uuid) ?? noCounts, nowMs)
  }

  /** Reads the outcomes of suspects' flows (see `isSuspect`). Begins with the suspect whose last read is the oldest. */
  async #lookUp(records: readonly GuestRecord[]): Promise<void> {
    const { context, sensor } = this.parts
    const nowMs = context.now()
    await this.#lookUpUnreplied(nowMs)
    const suspects = records
      .flatMap((record) => {
        const evidence = this.#evidence.find(record.uuid)
        return evidence && isSuspect(this.#view(record, evidence, nowMs), context.config.security)
          ? [{ record, evidence }]
          : []
      })
      .sort((a, b) => a.evidence.lookedAtMs - b.evidence.lookedAtMs)
      .slice(0, suspectsAtOnce)
    for (const { evidence } of suspects) evidence.lookedAtMs = nowMs
    const addresses = suspects.flatMap(({ record }) => this.#addressesOf(record))
    this.#addFlows(await sensor.readFlowsOf(addresses))
  }

  /** Reads all unanswered flows, at most once a minute. They can show new suspects, so `#lookUp` begins with this. */
  async #lookUpUnreplied(nowMs: number): Promise<void> {
    if (nowMs - this.#unrepliedAtMs < unrepliedEveryMs && nowMs >= this.#unrepliedAtMs) return
    this.#unrepliedAtMs = nowMs
    this.#addFlows(await this.parts.sensor.readUnreplied())
  }

  /** Returns the guest's IPv4 address and first four IPv6 addresses. A guest can have thousands of IPv6 addresses. */
  #addressesOf({ ipv4, ipv6Addresses }: GuestRecord): string[] {
    return [ipv4, ...ipv6Addresses.slice(0, 4)]
  }

  #addFlows(flows: readonly OpenedFlow[]): void {
    this.#readGuests()
    const nowMs = this.parts.context.now()
    const byGuest = new Map<string, OpenedFlow[]>()
    for (const flow of flows) {
      const uuid = this.#owners.findOwner(flow.source, nowMs - ageMsOf(flow))
      if (uuid === undefined) continue
      const own = byGuest.get(uuid)
      if (own) own.push(flow)
      else byGuest.set(uuid, [flow])
    }
    for (const [uuid, own] of byGuest) this.#evidence.of(uuid).addFlows(own, nowMs, ageMsOf)
  }

  #view(record: GuestRecord, evidence: GuestEvidence, nowMs: number): Evidence {
    const isMailClosed = !sendsMail(record, this.parts.context.config)
    return { ...evidence.view(nowMs, record.security.smtp === 'open'), isMailClosed }
  }

  /** Evaluates one guest and writes its findings. @returns the number of alerts that were created or extended */
  #judge(record: GuestRecord, open: readonly AlertRecord[], nowMs: number): number {
    const evidence = this.#evidence.find(record.uuid)
    if (!evidence || record.policy.abuse !== undefined) return 0
    const view = this.#view(record, evidence, nowMs)
    const { security } = this.parts.context.config
    const own = open.filter(({ guestUuid }) => guestUuid === record.uuid)
    const lookMs = security.interval_seconds * 1000
    const findings = detect(view, security).filter(
      (finding) => isNews(own, finding, { view, lookMs }) && !isUnchecked(finding, view, evidence.lookedAtMs),
    )
    for (const finding of findings) this.#note(own, finding, { record, view })
    return findings.length
  }

  /** Adds a finding to the guest's open alert for the same type of abuse and the same target, or creates an alert. */
  #note(own: AlertRecord[], finding: Finding, { record, view }: { record: GuestRecord; view: Evidence }): void {
    const { alerts, context } = this.parts
    const { nowMs } = view
    const place = planAlertPlace(own, finding)
    const at = own.findIndex(
      (alert) =>
        isOpen(alert, nowMs) &&
        alert.type === finding.type &&
        alert.targetIp === place[0] &&
        alert.targetPort === place[1],
    )
    const { id, revision: _revision, ...before } = own[at] ?? { id: undefined, revision: 0 }
    const known = id === undefined ? undefined : (before as AlertRecord)
    const seenAtMs = lastSeenMs(view, finding)
    const alert = planAlert(known, finding, { guest: guestOf(record, place[0]), place, nowMs, seenAtMs })
    const made = alerts.put(id, alert, planSamples(view.rows, finding))
    const noted = { ...alert, id: made, revision: 0 }
    if (at >= 0) own[at] = noted
    else own.push(noted)
    if (alert.severity !== known?.severity)
      context.log.warn(
        { guest: record.uuid, type: alert.type, severity: alert.severity, detail: alert.detail },
        'abuse by a guest was detected',
      )
  }

  #guestChanged(uuid: string, removed: boolean): void {
    const record = removed ? undefined : this.parts.context.store.find(uuid)
    if (!record) this.#evidence.delete(uuid)
    // Forgets the behaviour that led to a stop. Otherwise the same behaviour would lead to a second stop.
    else if (record.policy.abuse !== undefined) this.#evidence.find(uuid)?.forget()
  }
}

/** Computes the time since a flow's last packet, from the time that is left until the kernel forgets the flow. */
function ageMsOf({ protocol, leftSeconds }: OpenedFlow): number {
  return Math.max(0, (unansweredSeconds[protocol] ?? 600) - leftSeconds) * 1000
}

function guestOf({ uuid, id, name, ipv4, ipv6Addresses }: GuestRecord, target: string): AlertGuest {
  const sourceIp = target.includes(':') ? (ipv6Addresses[0] ?? ipv4) : ipv4
  return { guestUuid: uuid, guestId: id, guestName: name, sourceIp }
}
