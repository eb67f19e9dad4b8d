import { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

export interface RequestRules {
  /** True if a request asks for a protocol that this server switches to. */
  wants(request: IncomingMessage): boolean
  /** True if too many requests of its connection wait already. */
  isExcess(request: IncomingMessage): boolean
}

/** Node's request, with the flag of its parser that the client offers another protocol. */
interface OfferingRequest extends IncomingMessage {
  readonly offersUpgrade: boolean
  readonly upgrade: boolean
}

/**
 * Makes the class of a server's requests. A server may ignore an offer that it does not want, such as `h2c` of Java's
 * client (RFC 9110, 7.8), but Node 20 treats each offer as wanted once there is a listener for upgrades. Node's parser
 * stops at an upgrade, so an excess request is called one: the rest of its packet is not parsed.
 */
export function requestClass(rules: RequestRules): typeof IncomingMessage {
  return class extends IncomingMessage implements OfferingRequest {
    declare offersUpgrade: boolean
    /** Decided once, since Node asks for `upgrade` several times. */
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

/** The parts of Node's HTTP parser that are used here. */
interface Parser {
  readonly incoming: OfferingRequest | null
  getCurrentBuffer(): Buffer
  [onExecute: number]: ((parsed: number | Error) => void) | undefined
}

/**
 * Calls `lost` when requests follow an ignored offer in the same packet: Node's parser stops at an offer, and its server
 * drops the rest of the packet. Node does not document its parser. With another one such a rest stays unanswered. Adds one
 * function for each connection and none for a request.
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
