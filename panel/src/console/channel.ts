/** An object that noVNC accepts in place of a WebSocket. It carries the bytes of a console. */
export class Channel {
  binaryType = 'arraybuffer'
  readonly protocol = ''
  readyState = 'open'
  onopen: (() => void) | null = null
  onmessage: ((event: { data: ArrayBuffer }) => void) | null = null
  onclose: ((event: { code: number; reason: string }) => void) | null = null
  onerror: (() => void) | null = null

  constructor(readonly send: (bytes: Uint8Array) => void) {}

  /** Passes bytes from the guest's screen to noVNC. */
  take(bytes: Uint8Array): void {
    this.onmessage?.({ data: bytes.buffer as ArrayBuffer })
  }

  close(): void {
    if (this.readyState === 'closed') return
    this.readyState = 'closed'
    // As with a WebSocket, noVNC expects that `close` returns before `onclose` is called.
    setTimeout(() => this.onclose?.({ code: 1000, reason: '' }))
  }
}
