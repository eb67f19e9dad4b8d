import type { Ending } from './ending.ts'

/** A message of the gateway about the console itself, in addition to the guest's output. */
export interface Status {
  readonly state: 'connecting' | 'ready' | 'resumed' | 'closing' | 'failed'
  readonly resume?: string
  readonly offset?: number
  readonly replay?: number
  readonly seconds?: number
  readonly reason?: string
}

export interface ConnectionParts {
  readonly url: string
  readonly protocols: string[]
  onStatus(status: Status): void
  /** @param shown must be called after the bytes were processed */
  onBytes(bytes: Uint8Array, shown: () => void): void
  onClose(ending: Ending): void
}

/** Bytes of output between two acknowledgements. The gateway sends at most 512 KiB without an acknowledgement. */
const acknowledgeBytes = 128 * 1024
/** Size in bytes of the sent frames. The gateway accepts up to 64 KiB. */
const frameBytes = 32 * 1024
/** Code that closes the socket but keeps the console open. The code 1000 would end the console. */
const leavingCode = 3001

/** One WebSocket of a console, with the protocol `berth.console.v1`. */
export class Connection {
  /** Number of bytes of output received on this socket. */
  received = 0
  #shown = 0
  #acknowledged = 0
  readonly #socket: WebSocket

  constructor(private readonly parts: ConnectionParts) {
    const socket = new WebSocket(parts.url, parts.protocols)
    this.#socket = socket
    socket.binaryType = 'arraybuffer'
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (typeof data === 'string') parts.onStatus(JSON.parse(data) as Status)
      else this.#take(new Uint8Array(data))
    }
    socket.onclose = ({ code, reason }) => parts.onClose({ code, reason })
  }

  send(bytes: Uint8Array): void {
    if (!this.#isOpen) return
    for (let at = 0; at < bytes.length; at += frameBytes) this.#socket.send(bytes.slice(at, at + frameBytes))
  }

  say(message: object): void {
    if (this.#isOpen) this.#socket.send(JSON.stringify(message))
  }

  /** Closes the socket without calling `onClose`. The program in the guest keeps running for a while. */
  drop(): void {
    this.#socket.onmessage = this.#socket.onclose = null
    this.#socket.close(leavingCode, 'leaving')
  }

  get #isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN
  }

  #take(bytes: Uint8Array): void {
    this.received += bytes.length
    this.parts.onBytes(bytes, () => {
      this.#shown += bytes.length
      if (this.#shown - this.#acknowledged < acknowledgeBytes) return
      this.#acknowledged = this.#shown
      this.say({ type: 'ack', bytes: this.#shown })
    })
  }
}
