import { severities, type AbuseType, type Severity } from '../../shared/abuse.js'
import type { PacketReport } from '../host/net/packet-log.js'
import type { OpenedFlow } from '../host/net/flows-of.js'
import type { PacketCounts } from './plan-counts.js'

export function worse(a: Severity, b: Severity): Severity {
  return severities.indexOf(a) >= severities.indexOf(b) ? a : b
}

export type { OpenedFlow }

/** One kind of abuse that an evaluation of a guest found. */
export interface Finding {
  readonly type: AbuseType
  readonly severity: Severity
  /** Address of the target. `*`: more than one target. */
  readonly target: string
  /** Port of the target. 0: more than one port, or no port. */
  readonly port: number
  /** The figures that led to the finding, as text for users. */
  readonly detail: string
}

/** Outcome of a guest's flow, as far as it was observed. */
export type Outcome = 'opened' | 'refused' | 'unanswered' | 'answered'

/** A record of similar flows of a guest that were observed within a few seconds. `count` is the number of flows. */
export interface RecordedFlow {
  readonly atMs: number
  readonly outcome: Outcome
  readonly target: string
  readonly protocol: string
  /** Port of the target. 0: the protocol has no ports. */
  readonly port: number
  readonly count: number
  /** Bytes of the replies in an answered flow. Undefined: the host did not count them. */
  readonly replyBytes?: number
}

/** A connection whose first bytes have shown that the guest mines cryptocurrency or is an open proxy. */
export interface AbuseClaim {
  readonly atMs: number
  readonly kind: 'stratum' | 'pool' | 'proxy'
  readonly target: string
  readonly port: number
  /** Protocol of a proxy: `socks5`, `socks4` or `connect`. */
  readonly way?: string
}

/** Increase of a guest's packet counters from one evaluation to the next. */
export interface CountRow extends PacketCounts {
  readonly atMs: number
  readonly seconds: number
}

/** All observations of a guest that one evaluation for abuse uses. Each list is in chronological order. */
export interface Evidence {
  readonly nowMs: number
  readonly rows: readonly RecordedFlow[]
  /** Flows to port 25 within the last hour. */
  readonly mail: readonly RecordedFlow[]
  readonly claims: readonly AbuseClaim[]
  readonly counts: readonly CountRow[]
  /** True if the guest's own settings open port 25. Such a guest is allowed to send more mail than others. */
  readonly isMailServer: boolean
  /** True if port 25 is closed for the guest, so that its mail reaches nobody. Default: false. */
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

export interface AbuseSensor {
  /** Starts to count and sample packets, and restores nft rules that other programs removed. Idempotent. */
  ensure(): Promise<void>
  /** Removes everything that `ensure` created on the host, even if an earlier process created it. Idempotent. */
  remove(): Promise<void>
  onReport(listener: (report: PacketReport) => void): void
  /** Returns each guest's counts of packets since counting began, by uuid. Leaves out guests without any packet. */
  readCounts(guests: readonly WatchedGuest[]): Promise<ReadonlyMap<string, PacketCounts>>
  readFlowsOf(addresses: readonly string[]): Promise<readonly OpenedFlow[]>
  /** Returns the unanswered flows of all guests. */
  readUnreplied(): Promise<readonly OpenedFlow[]>
  close(): Promise<void>
}
