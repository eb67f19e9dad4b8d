import type { Logger } from 'pino'
import type { BackupRepositories } from '../backups/contract.js'
import type { TargetVault } from '../backups/vault.js'
import type { AgentConfig } from '../config.js'
import type { Driver, Login, Machine } from '../drivers/contract.js'
import type { DriverKind } from '../drivers/drivers.js'
import type { HostFacts } from '../network/addresses/host-facts.js'
import type { Network } from '../network/contract.js'
import type { Volumes } from '../storage/volumes.js'
import type { PortHolds } from './port-holds.js'
import type { GuestRecord } from './record.js'
import type { GuestStore } from './store.js'
import type { Turns } from './turns.js'

/** What images the guests domain needs. */
export interface ImageSource {
  /** In the catalogue. */
  knows(templateId: string): boolean
  /** On this host. */
  has(templateId: string): boolean
  ensure(
    templateId: string,
    report: (fraction: number, stage: string) => void,
    signal: AbortSignal,
  ): Promise<void>
}

/** What a guest has sent and received in the present period. */
export interface TrafficUse {
  /** Bytes of IP packets, headers included. */
  readonly rxBytes: number
  readonly txBytes: number
  /** First day of the period, YYYY-MM-DD in the host's time zone. */
  readonly periodStart: string
  readonly resetsAtMs: number
  /** Of the host's time zone at that time, east of UTC. */
  readonly utcOffsetMinutes: number
}

/** What decides whether a guest may run, beside its owner: its quota and its expiry. */
export interface PolicyKeeper {
  readUse(record: GuestRecord): TrafficUse
  /** Counts what came until now. Where the host's counters cannot be read, that is logged and nothing is counted. */
  count(): Promise<void>
  /** Counting begins anew after what was counted last, in the same period. Joins the caller's transaction. */
  resetUse(uuid: string): void
  /**
   * Compares use and clock with what is set now: notes it in the guest's `policy`, stops what may not run,
   * bounds or frees its rate. Called after a quota, an expiry or a count was changed; safe to repeat.
   */
  judge(uuid: string): Promise<void>
}

/** What of volumes the guests domain needs; see agent/storage/volumes.ts. */
export type GuestVolumes = Pick<Volumes, 'pathOf' | 'clone' | 'remove' | 'list' | 'usage'> &
  Pick<Volumes, 'nextPathOf' | 'prepare' | 'discardNext' | 'exchange' | 'restore'> &
  Pick<Volumes, 'snapshot' | 'listSnapshots' | 'deleteSnapshot' | 'snapshotPathOf' | 'resize'>

/** What the guests domain works with; made once in daemon.ts. */
export interface GuestContext extends TargetVault {
  readonly config: AgentConfig
  readonly store: GuestStore
  readonly drivers: Readonly<Record<DriverKind, Driver | undefined>>
  readonly volumes: GuestVolumes
  readonly backups: BackupRepositories
  /** Guests that the host has user ids for. */
  readonly userIdSlots: number
  readonly network: Network
  readonly facts: HostFacts
  readonly turns: Turns
  readonly portHolds: PortHolds
  readonly images: ImageSource
  readonly log: Logger
  readonly machineOf: (record: GuestRecord) => Machine
  readonly deviceOf: (id: number) => string
  readonly sealLogin: (uuid: string, login: Login) => string
  /** Empty where there is none. */
  readonly openLogin: (record: Pick<GuestRecord, 'uuid' | 'login'>) => Login
  /** Tells equal secrets apart from others without keeping them. */
  readonly digestSecret: (secret: string) => string
  readonly now: () => number
}

/** @throws when the host has no driver for the guest, as after a change of configuration */
export function driverOf(context: GuestContext, record: GuestRecord): Driver {
  const driver = context.drivers[record.spec.virtualization]
  if (!driver) throw new Error(`no ${record.spec.virtualization} driver on this host`)
  return driver
}
