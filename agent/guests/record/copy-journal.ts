import type { Database } from '../../state/database.js'
import type { GuestStore } from './guest-store.js'

/*
 * The journal of copies of standbys on this host. A copy is not a guest: it has no record, no addresses and no ports, and
 * it is never started. Only a restore of its guest makes a guest of it.
 */

/** Length in bytes of the stream of each complete snapshot, by the snapshot's id. */
export type CopiedSnapshots = Readonly<Record<string, number>>

export interface StandbyCopy {
  readonly uuid: string
  readonly standbyId: string
  readonly fromHostId: string
  /** Disk limit of the guest in GiB. */
  readonly diskGb: number
  /** Complete snapshots with the lengths of their streams. It has at most one snapshot. */
  readonly received: CopiedSnapshots
  /** Firewall of the guest at the newest increment, in the form of `encodeFirewall`. Empty: none. */
  readonly firewall: string
  /** True from the decision to remove the copy until it is removed. */
  readonly isRemoving: boolean
}

interface Row extends Omit<StandbyCopy, 'received' | 'isRemoving'> {
  readonly received: string
  readonly removing: number
}

const columns =
  'guest_uuid AS uuid, standby_id AS standbyId, from_host_id AS fromHostId, disk_gb AS diskGb, received, firewall, removing'

/** Reads and writes the journal. Each write joins the caller's transaction. */
export class CopyJournal {
  constructor(private readonly db: Database) {}

  find(uuid: string): StandbyCopy | undefined {
    const row = this.db.prepare<[string], Row>(`SELECT ${columns} FROM standby_copies WHERE guest_uuid = ?`).get(uuid)
    return row && copyOf(row)
  }

  list(): StandbyCopy[] {
    return this.db.prepare<[], Row>(`SELECT ${columns} FROM standby_copies ORDER BY guest_uuid`).all().map(copyOf)
  }

  /** Adds the copy, or changes the disk limit of a known one. */
  put({ uuid, standbyId, fromHostId, diskGb }: Omit<StandbyCopy, 'received' | 'firewall' | 'isRemoving'>): void {
    this.db
      .prepare(
        `INSERT INTO standby_copies (guest_uuid, standby_id, from_host_id, disk_gb, received, firewall, removing)
         VALUES (?, ?, ?, ?, '{}', '', 0) ON CONFLICT (guest_uuid) DO UPDATE SET disk_gb = excluded.disk_gb`,
      )
      .run(uuid, standbyId, fromHostId, diskGb)
  }

  /**
   * @param firewall absent: it stays the same
   * @returns false if the host no longer expects this standby
   */
  putReceived(uuid: string, standbyId: string, received: CopiedSnapshots, firewall: string | null = null): boolean {
    const { changes } = this.db
      .prepare(
        `UPDATE standby_copies SET received = ?, firewall = coalesce(?, firewall)
         WHERE guest_uuid = ? AND standby_id = ? AND removing = 0`,
      )
      .run(JSON.stringify(received), firewall, uuid, standbyId)
    return changes > 0
  }

  markRemoving(uuid: string): void {
    this.db.prepare(`UPDATE standby_copies SET removing = 1, received = '{}' WHERE guest_uuid = ?`).run(uuid)
  }

  forget(uuid: string): void {
    this.db.prepare('DELETE FROM standby_copies WHERE guest_uuid = ?').run(uuid)
  }
}

function copyOf({ received, removing, ...row }: Row): StandbyCopy {
  return { ...row, received: JSON.parse(received) as CopiedSnapshots, isRemoving: removing === 1 }
}

/** Returns the ids of the complete snapshots in the copy of a standby on this host; empty if it has no such copy. */
export function listCopied({ changes }: Pick<GuestStore, 'changes'>, uuid: string): ReadonlySet<string> {
  return new Set(Object.keys(new CopyJournal(changes.db).find(uuid)?.received ?? {}))
}
