import type { BackupContext } from '../context.js'
import type { PoolAddress } from '../../network/addresses/pool.js'
import type { GuestStore } from '../record/guest-store.js'
import type { HostCapacity } from '../resources/capacity.js'
import { readDetails, writeDetails } from './change-ownership.js'
import type { Manifest, sealManifest } from './manifest.js'
import type { MovedTraffic } from './move-input.js'
import type { MovedMapping } from './plan-arrival.js'
import type { ReceivedDisks } from './received-disks.js'

export interface ArrivalsParts {
  readonly context: BackupContext
  readonly capacity: HostCapacity
  /** True if an operation of the guest is pending or running on this host. */
  readonly busy: (uuid: string) => boolean
  /** Queues the start of a guest. */
  readonly start: (uuid: string) => void
  /** Stores the traffic of a guest that has arrived. Joins the caller's transaction. */
  readonly putTraffic: (uuid: string, traffic: MovedTraffic) => void
}

/** Details of a move. The target host stores them as JSON, without secrets in clear text. */
export interface ArrivalDetails {
  readonly fromHostId: string
  readonly mappings: readonly MovedMapping[]
  /** Addresses that the guest keeps. If this host becomes the owner, they join its pool. Absent in older records. */
  readonly kept?: readonly PoolAddress[]
  readonly received?: ReceivedDisks
  /** True if a process of the driver waits for the guest's memory. */
  readonly isLive?: boolean
  /** Changes to the guest's record if this host becomes the owner. Undefined until the manifest was received. */
  readonly arrived?: Pick<Manifest, 'limits' | 'trafficCount' | 'isWanted'> & ReturnType<typeof sealManifest>
  /** Received snapshot from which this host makes the guest's disk. */
  readonly snapshot?: string
}

/** The identity of a transfer, as its ticket names it. */
export interface TransferIdentity {
  readonly moveId: string
  readonly fromHostId: string
  readonly uuid: string
}

export function readArrival(store: GuestStore, uuid: string): Partial<ArrivalDetails> {
  return readDetails(store, uuid) as Partial<ArrivalDetails>
}

/** Changes some details, and keeps the others. Joins the caller's transaction. */
export function noteArrival(store: GuestStore, uuid: string, changed: Partial<ArrivalDetails>): void {
  writeDetails(store, uuid, { ...readArrival(store, uuid), ...changed })
}
