import { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

export interface RequestRules {
  /** True if the request asks for a protocol to which this server can switch. */
  wants(request: IncomingMessage): boolean
  /** True if the maximum number of requests already waits on the connection. */
  isExcess(request: IncomingMessage): boolean
}

/** A request of Node's server. Node's parser sets `offersUpgrade` if the client offers to switch the protocol. */
interface OfferingRequest extends IncomingMessage {
  readonly offersUpgrade: boolean
  readonly upgrade: boolean
}

/**
 * Creates a class for the requests of a server. Some clients, such as Java's, offer another protocol (`h2c`), which a
 * server may ignore (RFC 9110, 7.8). However, Node 20 treats each offer as accepted if the server has a listener for
 * upgrades. With this class, Node accepts only offers that `rules.wants` accepts. Requests beyond the connection's
 * limit also count as accepted offers, so that Node's parser ignores all data after them.
 */
export function requestClass(rules: RequestRules): typeof IncomingMessage {
  return class extends IncomingMessage implements OfferingRequest {
    declare offersUpgrade: boolean
    /** Stored result of `rules.isExcess`. Node reads `upgrade` several times, and must always get the same value. */
    readonly #isExcess: boolean

    constructor(socket: Socket) {
      super(socket)
      this.#isExcess = rules.isExcess(this)
    }

    get upgrade(): boolean {
      if (this.#isExcess) return true
      return this.offersUpgrade && (this.method === 'CONNECT' || rules.wants(this))
    }

    set upgrade(offered: boolean | null) {
      this.offersUpgrade = offered === true
    }
  }
}

/** The parts of Node's HTTP parser that `watchOffers` uses. */
interface Parser {
  readonly incoming: OfferingRequest | null
  getCurrentBuffer(): Buffer
  [onExecute: number]: ((parsed: number | Error) => void) | undefined
}

/**
 * Calls `lost` if Node's parser has dropped data that can contain requests. If the server ignores a protocol that a
 * client offers (`Upgrade`), the parser nevertheless drops all data that follows in the packet. This function uses
 * undocumented parts of Node. If they are missing, dropped requests get no answer.
 */
export function watchOffers(socket: Socket, lost: () => void): void {
  const parser = (socket as { parser?: Parser | null }).parser
  const at = (parser?.constructor as { kOnExecute?: number } | undefined)?.kOnExecute
  const passOn = at === undefined ? undefined : parser?.[at]
  if (!parser || at === undefined || !passOn) return
  parser[at] = (parsed) => {
    const { incoming } = parser
    const isIgnored = incoming !== null && incoming.offersUpgrade && !incoming.upgrade
    if (isIgnored && typeof parsed === 'number' && parsed < parser.getCurrentBuffer().length) lost()
    passOn(parsed)
  }
}
