/** What noVNC takes for a socket: the bytes of a console. */
export class Channel {
  binaryType = 'arraybuffer'
  readonly protocol = ''
  readyState = 'open'
  onopen: (() => void) | null = null
  onmessage: ((event: { data: ArrayBuffer }) => void) | null = null
  onclose: ((event: { code: number; reason: string }) => void) | null = null
  onerror: (() => void) | null = null

  constructor(readonly send: (bytes: Uint8Array) => void) {}

  /** Bytes of the guest's screen. */
  take(bytes: Uint8Array): void {
    this.onmessage?.({ data: bytes.buffer as ArrayBuffer })
  }

  close(): void {
    if (this.readyState === 'closed') return
    this.readyState = 'closed'
    // A socket tells of its end later, and noVNC counts on it.
    setTimeout(() => this.onclose?.({ code: 1000, reason: '' }))
  }
}
