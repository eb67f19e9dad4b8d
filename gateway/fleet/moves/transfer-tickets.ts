import { setTimeout as delay } from 'node:timers/promises'
import { BerthError } from '../../../shared/errors.js'
import type { Authority } from '../../pki/authority.js'
import type { WatchedHosts } from '../watched-hosts.js'
import type { StoredMove } from './move-store.js'

/** A transfer from one host to another: a move, or the increments of a standby. */
export type Transfer = Pick<StoredMove, 'id' | 'uuid' | 'fromHostId' | 'toHostId'>

/** Lifetime of a transfer ticket in ms, longer than any transfer. The ticket becomes invalid when the move ends. */
const ticketMs = 24 * 3_600_000
/** Maximum time in ms to repeat `submit` after an agent renewed its key. `renewalLookMs`: pause between attempts. */
const renewalMs = 10_000
const renewalLookMs = 200

export interface TransferTicketsOptions {
  /** Returns the CA that issues tickets for transfers to a host. The host must trust this CA. */
  readonly ticketIssuer: (toHostId: string) => Authority
  readonly watched: Pick<WatchedHosts, 'peerOf'>
}

/** Issues tickets, with which the agent of the source host may transfer a guest to the target host. */
export class TransferTickets {
  constructor(private readonly options: TransferTicketsOptions) {}

  /** Calls `submit` with a ticket for the transfer. Repeats this with a new ticket if the agent has renewed its key. */
  async submit<T>(move: Transfer, submit: (ticket: string) => Promise<T>): Promise<T> {
    for (const startMs = performance.now(); ; await delay(renewalLookMs)) {
      try {
        return await submit(await this.#issue(move))
      } catch (error) {
        const isEarlierKey = error instanceof BerthError && error.code === 'key_renewed'
        if (!isEarlierKey) throw error
        if (performance.now() - startMs < renewalMs) continue
        throw new BerthError('unavailable', 'host_offline', 'the key of the host is being renewed: try again')
      }
    }
  }

  /** Issues a certificate that allows exactly this transfer, for the key of the source host's agent. */
  async #issue({ id: moveId, uuid: guestUuid, fromHostId, toHostId }: Transfer): Promise<string> {
    const { ticketIssuer, watched } = this.options
    const peer = watched.peerOf(fromHostId)
    if (!peer)
      throw new BerthError(
        'unavailable',
        'host_offline',
        `host ${fromHostId} is not connected to the gateway: try again later`,
      )
    const transfer = { moveId, guestUuid, fromHostId, toHostId }
    const issued = await ticketIssuer(toHostId).certify(peer.publicKey, { role: 'transfer', transfer }, ticketMs)
    return issued.certificatePem
  }
}
