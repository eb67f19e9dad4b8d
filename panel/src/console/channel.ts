/** A stand-in for a socket that noVNC accepts: the bytes of a console. */
export class Channel {
  binaryType = 'arraybuffer'
  readonly protocol = ''
  readyState = 'open'
  onopen: (() => void) | null = null
  onmessage: ((event: { data: ArrayBuffer }) => void) | null = null
  onclose: ((event: { code: number; reason: string }) => void) | null = null
  onerror: (() => void) | null = null

  constructor(readonly send: (bytes: Uint8Array) => void) {}

  /** Passes on bytes of the guest's screen. */
  take(bytes: Uint8Array): void {
    this.onmessage?.({ data: bytes.buffer as ArrayBuffer })
  }

  close(): void {
    if (this.readyState === 'closed') return
    this.readyState = 'closed'
    // A socket reports its end asynchronously, and noVNC relies on it.
    setTimeout(() => this.onclose?.({ code: 1000, reason: '' }))
  }
}
