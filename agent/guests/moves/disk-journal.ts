import { conflict } from '../../../shared/errors.js'
import type { GuestTransfers } from '../context.js'
import { listCopied } from '../record/copy-journal.js'
import type { GuestStore } from '../record/guest-store.js'
import type { TransferIdentity } from './arrival-details.js'
import { forgetReceived, noteReceived, planStreamBytes, readReceived, type ReceivedDisk } from './received-disks.js'
import type { ReceivedGuests } from './received-guests.js'

/** A snapshot that was received completely. */
interface CompleteDisk extends ReceivedDisk {
  /** Firewall of the guest, in the form of `encodeFirewall`. Undefined: none. Only used for standbys. */
  readonly firewall: string | undefined
}

/** The journal of the snapshots that one transfer receives: for an arriving guest, or for a standby. */
export interface DiskJournal {
  /** True: only snapshots are received, and no guest is made of them. */
  readonly isForStandby: boolean
  /** @throws {BerthError} `guest_moving` if this host does not expect the transfer */
  check(): void
  /**
   * Returns the ids of complete snapshots, and deletes all other received data. The other host may send differences to
   * these snapshots. For an arriving guest, they include the snapshot of a standby on this host.
   */
  listComplete(): Promise<string[]>
  /** True if the snapshot is complete. */
  has(id: string): boolean
  /** Forgets a snapshot that is about to be received again. @throws {BerthError} `bad_stream` */
  forget(id: string): void
  /** Returns the maximum length of the next stream in bytes. @throws {BerthError} `bad_stream` */
  maxBytes(): number
  /** Checks the space of received data when a snapshot is complete. @throws {BerthError} `bad_stream` */
  checkSpace(id: string): Promise<void>
  /** Records that a snapshot is complete and durable. @throws {BerthError} `bad_stream` */
  note(disk: CompleteDisk): void
  /** Called when the connection has ended. */
  ended(): Promise<void>
}

const copyText = 'the other host sent a snapshot of a standby as part of a move'

export interface ArrivalJournalParts {
  readonly context: { readonly store: GuestStore; readonly transfers: Pick<GuestTransfers, 'listComplete'> }
  readonly received: Pick<ReceivedGuests, 'check'>
}

export function arrivalJournal({ context, received }: ArrivalJournalParts, transfer: TransferIdentity): DiskJournal {
  const { store, transfers } = context
  const { uuid, moveId } = transfer
  const read = () => readReceived(store, uuid)
  return {
    isForStandby: false,
    check: () => received.check(transfer),
    // The copy of a standby on this host is needed again if the move is canceled.
    listComplete: () => transfers.listComplete(uuid, new Set([...Object.keys(read()), ...listCopied(store, uuid)])),
    has: (id) => Object.hasOwn(read(), id),
    forget: (id) => {
      if (listCopied(store, uuid).has(id)) throw conflict('bad_stream', copyText)
      forgetReceived(store, uuid, id)
    },
    maxBytes: () => planStreamBytes(store.get(uuid), read()),
    checkSpace: async () => undefined, // `maxBytes` counts all received streams of the move
    note: ({ id, bytes }) => noteReceived(store, uuid, moveId, { id, bytes }),
    ended: async () => undefined,
  }
}
