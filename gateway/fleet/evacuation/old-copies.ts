import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { conflict, notFound } from '../../../shared/errors.js'
import type { EvacuationStore } from './evacuation-store.js'
import type { HostState } from '../host-state.js'
import type { GuestView } from '../contract.js'
import type { DeleteCopyRequest, OldCopy, OldCopyAdmin } from '../move-contract.js'
import type { GuestOwners } from '../placement/guest-owners.js'
import { requireFeature } from '../require-feature.js'
import type { FleetState } from '../view.js'
import type { WatchedHosts } from '../watched-hosts.js'
import type { MoveStore } from '../moves/move-store.js'

export interface OldCopiesOptions {
  readonly view: FleetState
  readonly watched: Pick<WatchedHosts, 'agent'>
  readonly owners: Pick<GuestOwners, 'check'>
  readonly moves: Pick<MoveStore, 'find'>
  readonly evacuations: Pick<EvacuationStore, 'find'>
  readonly reached: (hostId: string, revision: number) => Promise<void>
}

export class OldCopies implements OldCopyAdmin {
  constructor(private readonly options: OldCopiesOptions) {}

  list(hostId: string): OldCopy[] {
    const host = this.options.view.findState(hostId)
    const copies = host ? [...host.conflicts.values()].filter(({ guest }) => isOldCopy(guest)) : []
    return copies.map(({ guest }) => {
      const owner = this.options.view.findGuest(guest.uuid)
      return { guest, owner, isOnlyCopy: !isUsable(owner) }
    })
  }

  async delete({ hostId, uuid, operationId, requestedBy, force }: DeleteCopyRequest): Promise<void> {
    const { view, watched, reached } = this.options
    const host = view.findState(hostId)
    if (!host) throw notFound('host')
    if (!view.findOperation(operationId)) await this.#check(host, uuid, force)
    const order = { $case: 'deleteCopy', value: { uuid } } as const
    const { revision } = await watched.agent(hostId).operations.submitOperation({ operationId, requestedBy, order })
    await reached(hostId, revision)
  }

  async #check(host: HostState, uuid: string, force: boolean): Promise<void> {
    const { view, owners, moves, evacuations } = this.options
    const copy = host.conflicts.get(uuid)?.guest
    if (!copy || !isOldCopy(copy)) throw notFound('old copy of this container on the host')
    requireFeature(host.view, 'delete-copy')
    await owners.check(host, [copy])
    if (!host.disowned.has(uuid)) throw conflict('invalid_state', 'the container belongs to this host')
    if (await moves.find(uuid)) throw conflict('guest_moving', 'the container is moving')
    if (await evacuations.find(uuid)) throw conflict('guest_busy', 'the container is being restored from a backup')
    if (!force && !isUsable(view.findGuest(uuid))) throw conflict('invalid_state', onlyCopyText)
  }
}

const onlyCopyText =
  'no host that is online has a working copy of the container: this copy may be the only one. Delete it with force=true if it is not needed'

/** True if the guest's host is online and the guest's disk is complete. */
function isUsable(owner: GuestView | undefined): boolean {
  return owner?.online === true && owner.guest.status !== 'error' && owner.guest.status !== 'creating'
}

function isOldCopy({ ownership }: Guest): boolean {
  return ownership?.role === 'fenced'
}
