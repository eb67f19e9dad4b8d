/** A call of grpc-js that emits `status` at its end, and before it `error` if it has failed. */
export interface EndingCall {
  once(event: 'status' | 'error', listener: () => void): unknown
}

/**
 * Closes a channel only when its last call has ended. If a channel is closed earlier, grpc-js 1.14.7 ends its calls at
 * the next keepalive ping of either side, because Node.js sends no pings on a session that is being closed.
 */
export class LingeringChannel {
  readonly #calls = new Set<EndingCall>()
  #isClosed = false

  constructor(private readonly closeChannel: () => void) {}

  /** Keeps the channel open until the call has ended. */
  hold(call: EndingCall): void {
    const release = (): void => {
      if (this.#calls.delete(call)) this.#closeUnused()
    }
    this.#calls.add(call)
    call.once('status', release)
    call.once('error', release)
  }

  /** No call may begin afterwards. Can be repeated. */
  close(): void {
    this.#isClosed = true
    this.#closeUnused()
  }

  #closeUnused(): void {
    if (this.#isClosed && this.#calls.size === 0) this.closeChannel()
  }
}
