import RFB from '@novnc/novnc'
import { Channel } from './channel.ts'
import type { KeyPress } from './keyboard-layouts.ts'

export interface ScreenParts {
  readonly element: HTMLElement
  send(bytes: Uint8Array): void
  /** The picture is there. */
  onPicture(): void
  /** The bytes make no sense, or the guest's side has gone. */
  onBroken(): void
}

/** Between two keys that are typed for somebody: a guest's keyboard controller keeps few. */
const keyPauseMs = 25

/** The screen of a virtual machine, in an element. It begins anew with each socket. */
export class Screen {
  #rfb: RFB | undefined
  #channel: Channel | undefined
  #isFitted = true
  #typing = 0

  constructor(private readonly parts: ScreenParts) {}

  /** A socket is open: what it brings are the bytes of a new RFB session. */
  begin(): void {
    this.end()
    const channel = new Channel((bytes) => this.parts.send(bytes.slice()))
    const rfb = new RFB(this.parts.element, channel, { shared: true })
    rfb.background = 'transparent'
    rfb.scaleViewport = this.#isFitted
    rfb.addEventListener('connect', () => this.parts.onPicture())
    rfb.addEventListener('disconnect', () => {
      if (this.#rfb === rfb) this.parts.onBroken()
    })
    this.#channel = channel
    this.#rfb = rfb
  }

  take(bytes: Uint8Array): void {
    this.#channel?.take(bytes)
  }

  end(): void {
    const rfb = this.#rfb
    this.#rfb = this.#channel = undefined
    this.#typing++
    rfb?.disconnect()
  }

  focus(): void {
    this.#rfb?.focus()
  }

  /** As large as there is room, or pixel by pixel. */
  fit(isFitted: boolean): void {
    this.#isFitted = isFitted
    if (this.#rfb) this.#rfb.scaleViewport = isFitted
  }

  ctrlAltDel(): void {
    this.#rfb?.sendCtrlAltDel()
  }

  /** The key that leaves the screen, for the guest. */
  pressF6(): void {
    this.#rfb?.sendKey(0xffc3, 'F6')
  }

  /** @returns a PNG; null: there is no picture */
  picture(): Promise<Blob | null> {
    const rfb = this.#rfb
    return new Promise((resolve) => (rfb ? rfb.toBlob(resolve, 'image/png') : resolve(null)))
  }

  /** @param onKey called with the number of keys typed. @returns whether all were */
  async type(presses: readonly KeyPress[], onKey: (typed: number) => void): Promise<boolean> {
    const turn = ++this.#typing
    for (const [at, press] of presses.entries()) {
      if (turn !== this.#typing || !this.#rfb) return false
      pressOn(this.#rfb, press)
      onKey(at + 1)
      await new Promise((resolve) => setTimeout(resolve, keyPauseMs))
    }
    return true
  }

  stopTyping(): void {
    this.#typing++
  }
}

const shift = { keysym: 0xffe1, code: 'ShiftLeft' } as const
const altGr = { keysym: 0xfe03, code: 'AltRight' } as const

/** QEMU passes the key on that a person would have pressed; what it means is up to the guest's layout. */
function pressOn(rfb: RFB, press: KeyPress): void {
  const held = [...(press.shift ? [shift] : []), ...(press.altGr ? [altGr] : [])]
  for (const { keysym, code } of held) rfb.sendKey(keysym, code, true)
  rfb.sendKey(press.keysym, press.code)
  for (const { keysym, code } of held.reverse()) rfb.sendKey(keysym, code, false)
}
