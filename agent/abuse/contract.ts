import { severities, type AbuseType, type Severity } from '../../shared/abuse.js'
import type { PacketReport } from '../host/net/packet-log.js'
import type { OpenedFlow } from '../host/net/flows-of.js'
import type { PacketCounts } from './plan-counts.js'

export function worse(a: Severity, b: Severity): Severity {
  return severities.indexOf(a) >= severities.indexOf(b) ? a : b
}

export type { OpenedFlow }

/** What one look found of a guest. */
export interface Finding {
  readonly type: AbuseType
  readonly severity: Severity
  /** `*`: more than one. */
  readonly target: string
  /** 0: more than one, or none. */
  readonly port: number
  /** What was counted, for people. */
  readonly detail: string
}

/** How a flow of a guest went, as far as it was seen. */
export type Outcome = 'opened' | 'refused' | 'unanswered' | 'answered'

/** Alike flows of a guest, seen within a few seconds. */
export interface FlowRow {
  readonly atMs: number
  readonly outcome: Outcome
  readonly target: string
  readonly protocol: string
  /** 0: the protocol has none. */
  readonly port: number
  readonly count: number
  /** Of an answered one; undefined: the host did not count. */
  readonly replyBytes?: number
}

/** What first bytes of a guest's connections told. */
export interface AbuseClaim {
  readonly atMs: number
  readonly kind: 'stratum' | 'pool' | 'proxy'
  readonly target: string
  readonly port: number
  /** Of a proxy: "socks5", "socks4", "connect". */
  readonly way?: string
}

/** What a guest's counters grew by between two looks. */
export interface CountRow extends PacketCounts {
  readonly atMs: number
  readonly seconds: number
}

/** All that a look judges a guest by. Rows are in the order of time. */
export interface Evidence {
  readonly nowMs: number
  readonly rows: readonly FlowRow[]
  /** Of port 25, for an hour. */
  readonly mail: readonly FlowRow[]
  readonly claims: readonly AbuseClaim[]
  readonly counts: readonly CountRow[]
  /** It was given port 25: it sends more mail than others. */
  readonly isMailServer: boolean
  /** Its port 25 is closed: nothing of what it sends there reaches anybody. Default: no. */
  readonly isMailClosed?: boolean
}

/** Addresses by which a guest is known on the network. */
export interface WatchedGuest {
  readonly uuid: string
  readonly device: string
  readonly mac: string
  readonly ipv4: string
  readonly ipv6Addresses: readonly string[]
}

/** What the host sees of guests' packets. */
export interface AbuseSensor {
  /** Counts and samples from now on; safe to repeat, repairs what others removed. */
  ensure(): Promise<void>
  /** Takes back what `ensure` made on the host, also in another process; safe to repeat. */
  remove(): Promise<void>
  onReport(listener: (report: PacketReport) => void): void
  /** By uuid, since counting began; guests without any packet are missing. */
  readCounts(guests: readonly WatchedGuest[]): Promise<ReadonlyMap<string, PacketCounts>>
  /** Flows that one of the addresses opened. */
  readFlowsOf(addresses: readonly string[]): Promise<readonly OpenedFlow[]>
  /** Flows of everybody that nobody answered. */
  readUnreplied(): Promise<readonly OpenedFlow[]>
  close(): Promise<void>
}
