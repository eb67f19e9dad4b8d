import type { GuestContext } from '../context.js'
import type { OwnershipRole } from '../ownership/plan-ownership.js'
import type { Network } from '../../network/contract.js'
import { adoptAddresses, departAddresses } from '../../network/addresses/shared-pools.js'
import type { PoolAddress } from '../../network/addresses/pool.js'
import type { GuestRecord } from '../record/record.js'
import type { GuestStore } from '../record/guest-store.js'
import { fullNetworkOf } from '../resources/network.js'
import { readArrival } from './arrival-details.js'
import { readDetails, writeDetails } from './change-ownership.js'
import { readIsWanted } from './leave.js'

/* A guest is fenced while it belongs to another host. */

interface FencedDetails {
  /** State of the guest before it was fenced. It is restored if this host becomes the owner again. */
  readonly beforeFence: Pick<GuestRecord, 'wanted' | 'statusReason'> & { readonly isBroken: boolean }
  /** Addresses of shared pools that left this host's pool when the guest was fenced. Absent in older records. */
  readonly departed?: readonly PoolAddress[]
}

type EndContext = Pick<GuestContext, 'store' | 'machines' | 'network' | 'config'>

const fencedReason = 'the container belongs to another host; this host keeps an old copy of its disk'

/**
 * Records that the guest must not run. The guest's addresses of shared pools leave this host's pool, because the other
 * host possibly has them. Joins the caller's transaction.
 * @param before role of this host before the decision
 */
export function recordFence(
  { store, network }: Pick<EndContext, 'store'> & { readonly network: Pick<Network, 'listShared'> },
  uuid: string,
  before: OwnershipRole,
): void {
  const record = store.find(uuid)
  if (!record || before === 'fenced') return
  const { status, statusReason } = record
  const isBroken = status === 'error'
  // The move of the guest has set its `wanted` to `stopped`. The details of the move contain the earlier value.
  const isLeaving = before === 'leaving' || before === 'handed_over'
  const wanted = isLeaving && readIsWanted(store, uuid) ? 'running' : record.wanted
  const { snapshot, received } = readArrival(store, uuid)
  const beforeFence: FencedDetails['beforeFence'] = { wanted, statusReason: isBroken ? statusReason : '', isBroken }
  const departed = departAddresses(store.changes.db, network.listShared(record.publicIpv4s))
  writeDetails(store, uuid, { snapshot, received, beforeFence, departed })
  store.update(uuid, { status: 'error', statusReason: fencedReason, wanted: 'stopped' })
}

/**
 * Records that this host owns the guest again. Joins the caller's transaction. The reconciler starts the guest if it
 * ran before it was fenced.
 */
export function liftFence(store: GuestStore, uuid: string): void {
  const { beforeFence, departed = [], ...details } = readDetails(store, uuid) as Partial<FencedDetails>
  adoptAddresses(store.changes.db, departed)
  const { wanted = 'stopped', statusReason = '', isBroken = false } = beforeFence ?? {}
  store.update(uuid, { status: isBroken ? 'error' : 'stopped', statusReason, wanted })
  writeDetails(store, uuid, details)
}

/** Ends a fenced guest, and keeps its disk. Leaves other guests unchanged. Can be repeated. */
export async function endFenced(context: EndContext, uuid: string): Promise<void> {
  const { store, machines, network, config } = context
  const record = store.find(uuid)
  if (record?.ownership.role !== 'fenced') return
  await machines.driverOf(record).kill(machines.of(record))
  await network.detach(fullNetworkOf(record, config))
}
