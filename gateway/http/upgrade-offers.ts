import { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

/** Whether a request asks for a protocol that this server switches to. */
export type WantsUpgrade = (request: IncomingMessage) => boolean

/** Node's request, with the flag by which its parser says that the client offers another protocol. */
interface OfferingRequest extends IncomingMessage {
  readonly offersUpgrade: boolean
  readonly upgrade: boolean
}

/**
 * Makes the class of a server's requests. A server may ignore an offer that it does not want, such as `h2c` of Java's
 * client (RFC 9110, 7.8), but Node 20 treats each offer as wanted once there is a listener for upgrades.
 */
export function requestClass(wants: WantsUpgrade): typeof IncomingMessage {
  return class extends IncomingMessage implements OfferingRequest {
    declare offersUpgrade: boolean

    get upgrade(): boolean {
      return this.offersUpgrade && (this.method === 'CONNECT' || wants(this))
    }

    set upgrade(offered: boolean | null) {
      this.offersUpgrade = offered === true
    }
  }
}

/** What is used of Node's HTTP parser. */
interface Parser {
  readonly incoming: OfferingRequest | null
  execute(bytes: Buffer): number | Error
  getCurrentBuffer(): Buffer
  [onExecute: number]: ((parsed: number | Error) => void) | undefined
}

/**
 * Has the requests parsed that follow an ignored offer in the same packet: Node's parser stops at an offer, and its
 * server drops the rest of the packet. Node does not document its parser. With another one only pipelined requests after
 * an offer stay unanswered. Adds one function for each connection and none for a request.
 */
export function parseAfterOffers(socket: Socket): void {
  const parser = (socket as { parser?: Parser | null }).parser
  const at = (parser?.constructor as { kOnExecute?: number } | undefined)?.kOnExecute
  const passOn = at === undefined ? undefined : parser?.[at]
  if (!parser || at === undefined || !passOn) return
  const isGone = (): boolean => (socket as { parser?: unknown }).parser !== parser
  parser[at] = (parsed) => {
    let rest = stopsAtOffer(parser, parsed)
      ? Buffer.from(parser.getCurrentBuffer().subarray(parsed))
      : nothing
    passOn(parsed)
    while (rest.length > 0 && !isGone()) {
      const result = parser.execute(rest)
      // What follows a wanted offer belongs to that protocol, and a client may not send it before the answer.
      if (parser.incoming?.upgrade) return void socket.destroy()
      rest = stopsAtOffer(parser, result) ? rest.subarray(result) : nothing
      passOn(result)
    }
  }
}

const nothing = Buffer.alloc(0)

function stopsAtOffer({ incoming }: Parser, parsed: number | Error): parsed is number {
  return typeof parsed === 'number' && incoming !== null && incoming.offersUpgrade && !incoming.upgrade
}
