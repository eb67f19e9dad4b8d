import RFB from '@novnc/novnc'
import { Channel } from './channel.ts'
import type { KeyPress } from './keyboard-layouts.ts'

export interface ScreenParts {
  readonly element: HTMLElement
  send(bytes: Uint8Array): void
  /** Called when the first picture is shown. */
  onPicture(): void
  /** Called when the data is invalid or the guest's side has ended. */
  onBroken(): void
}

/** Pause in ms between two typed keys. The keyboard controller of a guest buffers only a few keys. */
const keyPauseMs = 25

/** The screen of a virtual machine inside an element. Each connection starts a new VNC session. */
export class Screen {
  #rfb: RFB | undefined
  #channel: Channel | undefined
  #isFitted = true
  #typing = 0

  constructor(private readonly parts: ScreenParts) {}

  /** Begins a new VNC session, because a new connection of the console has opened. */
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

  /** Scales the picture to the available space, or shows it in its original size. */
  fit(isFitted: boolean): void {
    this.#isFitted = isFitted
    if (this.#rfb) this.#rfb.scaleViewport = isFitted
  }

  ctrlAltDel(): void {
    this.#rfb?.sendCtrlAltDel()
  }

  /** Sends F6 to the guest. On the user's keyboard, F6 is not sent, because it moves the focus out of the screen. */
  pressF6(): void {
    this.#rfb?.sendKey(0xffc3, 'F6')
  }

  /** @returns the screen as a PNG; null if there is no picture */
  picture(): Promise<Blob | null> {
    const rfb = this.#rfb
    return new Promise((resolve) => (rfb ? rfb.toBlob(resolve, 'image/png') : resolve(null)))
  }

  /** Types the keys one by one. @param onKey called with the number of typed keys. @returns true if all were typed */
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

/** Presses a key by its position. QEMU passes on the position, and the guest's layout decides what the key means. */
function pressOn(rfb: RFB, press: KeyPress): void {
  const held = [...(press.shift ? [shift] : []), ...(press.altGr ? [altGr] : [])]
  for (const { keysym, code } of held) rfb.sendKey(keysym, code, true)
  rfb.sendKey(press.keysym, press.code)
  for (const { keysym, code } of held.reverse()) rfb.sendKey(keysym, code, false)
}
