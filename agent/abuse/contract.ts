import { severities, type AbuseType, type Severity } from '../../shared/abuse.js'
import type { PacketReport } from '../host/net/packet-log.js'
import type { OpenedFlow } from '../host/net/flows-of.js'
import type { PacketCounts } from './plan-counts.js'

export function worse(a: Severity, b: Severity): Severity {
  return severities.indexOf(a) >= severities.indexOf(b) ? a : b
}

export type { OpenedFlow }

/** The result of one evaluation of a guest. */
export interface Finding {
  readonly type: AbuseType
  readonly severity: Severity
  /** `*`: more than one target. */
  readonly target: string
  /** 0: more than one port, or no port. */
  readonly port: number
  /** The counted figures as text. */
  readonly detail: string
}

/** Outcome of a guest's flow, as far as it was observed. */
export type Outcome = 'opened' | 'refused' | 'unanswered' | 'answered'

/** Similar flows of a guest, seen within a few seconds. */
export interface FlowRow {
  readonly atMs: number
  readonly outcome: Outcome
  readonly target: string
  readonly protocol: string
  /** 0: the protocol has no ports. */
  readonly port: number
  readonly count: number
  /** Bytes of an answered flow's replies; undefined: the host did not count them. */
  readonly replyBytes?: number
}

/** Information from the first bytes of a guest's connections. */
export interface AbuseClaim {
  readonly atMs: number
  readonly kind: 'stratum' | 'pool' | 'proxy'
  readonly target: string
  readonly port: number
  /** Protocol of a proxy: "socks5", "socks4", "connect". */
  readonly way?: string
}

/** Increase of a guest's counters between two evaluations. */
export interface CountRow extends PacketCounts {
  readonly atMs: number
  readonly seconds: number
}

/** All input of a guest's evaluation. Rows are in chronological order. */
export interface Evidence {
  readonly nowMs: number
  readonly rows: readonly FlowRow[]
  /** Flows to port 25 within the last hour. */
  readonly mail: readonly FlowRow[]
  readonly claims: readonly AbuseClaim[]
  readonly counts: readonly CountRow[]
  /** True if port 25 was opened for the guest, so it may send more mail than others. */
  readonly isMailServer: boolean
  /** True if the guest's port 25 is closed, so its mail reaches nobody. Default: false. */
  readonly isMailClosed?: boolean
}

/** Addresses that identify a guest on the network. */
export interface WatchedGuest {
  readonly uuid: string
  readonly device: string
  readonly mac: string
  readonly ipv4: string
  readonly ipv6Addresses: readonly string[]
}

/** Observes guests' packets on the host. */
export interface AbuseSensor {
  /** Starts counting and sampling; idempotent. Repairs parts that other programs removed. */
  ensure(): Promise<void>
  /** Removes everything that `ensure` created on the host, even if another process did; idempotent. */
  remove(): Promise<void>
  onReport(listener: (report: PacketReport) => void): void
  /** Counts by uuid, since counting began; guests without any packet are missing. */
  readCounts(guests: readonly WatchedGuest[]): Promise<ReadonlyMap<string, PacketCounts>>
  /** Flows that one of the addresses opened. */
  readFlowsOf(addresses: readonly string[]): Promise<readonly OpenedFlow[]>
  /** Flows of all guests that nobody answered. */
  readUnreplied(): Promise<readonly OpenedFlow[]>
  close(): Promise<void>
}
