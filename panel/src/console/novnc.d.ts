/** Types for the part of noVNC that the panel uses. The package has no types, only docs/API.md. */
declare module '@novnc/novnc' {
  /** A WebSocket, or an object with the same interface. */
  interface RawChannel {
    binaryType: string
    readonly protocol: string
    readonly readyState: string
    onopen: (() => void) | null
    onmessage: ((event: { data: ArrayBuffer }) => void) | null
    onclose: ((event: { code: number; reason: string }) => void) | null
    onerror: (() => void) | null
    send(bytes: Uint8Array): void
    close(): void
  }

  export default class RFB extends EventTarget {
    constructor(target: HTMLElement, channel: RawChannel, options?: { shared?: boolean })
    scaleViewport: boolean
    clipViewport: boolean
    focusOnClick: boolean
    background: string
    focus(): void
    blur(): void
    disconnect(): void
    sendCtrlAltDel(): void
    sendKey(keysym: number, code: string, down?: boolean): void
    toBlob(take: (blob: Blob | null) => void, type?: string): void
  }
}
