import { FitAddon } from '@xterm/addon-fit'
import { SearchAddon } from '@xterm/addon-search'
import { Unicode11Addon } from '@xterm/addon-unicode11'
import { WebLinksAddon } from '@xterm/addon-web-links'
import { WebglAddon } from '@xterm/addon-webgl'
import { Terminal } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'
import type { Size } from './link.ts'
import { allowOwnStyles } from './own-styles.ts'
import type { Preferences } from './preferences.ts'

export interface TerminalParts {
  readonly element: HTMLElement
  readonly preferences: Preferences
  /** Label for screen readers. */
  readonly label: string
  /** Typed text, or the terminal's answers to programs. */
  onText(text: string): void
  /** Mouse reports that are not text. */
  onBytes(bytes: Uint8Array): void
  onSize(size: Size): void
  /** A link in the guest's output was clicked. */
  onLink(url: string): void
  onSearch(): void
}

const colors = {
  background: '#0e1217',
  foreground: '#e7eaf0',
  cursor: '#86abff',
  selectionBackground: '#35507f',
  black: '#2b333f',
  red: '#ff8a83',
  green: '#6fd39b',
  yellow: '#efc063',
  blue: '#86abff',
  magenta: '#d6a0ff',
  cyan: '#6ad1dc',
  white: '#d5dae3',
  brightBlack: '#8591a3',
  brightRed: '#ffb7b2',
  brightGreen: '#9be8bd',
  brightYellow: '#ffdc94',
  brightBlue: '#b3cbff',
  brightMagenta: '#e7c6ff',
  brightCyan: '#a3ecf3',
  brightWhite: '#ffffff',
}
const font = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"

/**
 * Control sequences that xterm.js executes once per count, although there are at most a thousand lines and columns: a
 * guest with a count of a thousand million would block the page.
 */
const counted = [...'ILMSTZb'].map((final) => ({ final }))
const mostCount = 1000
/** The terminal yields to the page between pieces of this size: a few sequences with the largest counts. */
const pieceBytes = 512

/**
 * A terminal in an element. The guest's output is only data: titles, the clipboard (OSC 52) and window commands are
 * ignored, and links need a confirmation.
 */
export class TerminalScreen {
  readonly #terminal: Terminal
  readonly #fit = new FitAddon()
  readonly #search = new SearchAddon()
  readonly #observer: ResizeObserver
  #replays = 0

  constructor(private readonly parts: TerminalParts) {
    allowOwnStyles()
    Terminal.strings.promptLabel = parts.label
    const open = (_event: MouseEvent, url: string): void => parts.onLink(url)
    this.#terminal = new Terminal({
      allowProposedApi: true,
      fontFamily: font,
      theme: colors,
      scrollback: 5000,
      cursorBlink: false,
      fontSize: parts.preferences.fontSize,
      screenReaderMode: parts.preferences.screenReader,
      logLevel: 'off', // without messages about invalid output of the guest
      linkHandler: { activate: open, allowNonHttpProtocols: false },
    })
    const terminal = this.#terminal
    for (const addon of [this.#fit, this.#search, new Unicode11Addon(), new WebLinksAddon(open)])
      terminal.loadAddon(addon)
    terminal.unicode.activeVersion = '11'
    for (const id of counted) terminal.parser.registerCsiHandler(id, ([count]) => Number(count) > mostCount)
    terminal.open(parts.element)
    drawByGraphicsCard(terminal)
    terminal.attachCustomKeyEventHandler((event) => this.#isForGuest(event))
    terminal.onData((text) => (this.#replays > 0 ? undefined : parts.onText(text)))
    terminal.onBinary((text) => parts.onBytes(Uint8Array.from(text, (one) => one.charCodeAt(0))))
    terminal.onResize((size) => parts.onSize(size))
    this.#observer = new ResizeObserver(() => this.#fit.fit())
    this.#observer.observe(parts.element)
    this.#fit.fit()
    // For tests only, which could otherwise only see pixels.
    parts.element.dispatchEvent(new CustomEvent('terminal', { detail: terminal, bubbles: true }))
  }

  get size(): Size {
    return { cols: this.#terminal.cols, rows: this.#terminal.rows }
  }

  /** True if programs want arrows as their own sequences (DECCKM). */
  get hasApplicationCursor(): boolean {
    return this.#terminal.modes.applicationCursorKeysMode
  }

  /** @param isReplay it was shown before: the terminal does not answer its queries */
  show(bytes: Uint8Array, shown: () => void, isReplay: boolean): void {
    if (isReplay) this.#replays++
    let at = 0
    for (; bytes.length - at > pieceBytes; at += pieceBytes) this.#terminal.write(bytes.subarray(at, at + pieceBytes))
    this.#terminal.write(bytes.subarray(at), () => {
      if (isReplay) this.#replays--
      shown()
    })
  }

  /** Types a text as if it came from the keyboard. */
  type(text: string): void {
    this.#terminal.input(text)
  }

  clear(): void {
    this.#terminal.reset()
  }

  focus(): void {
    this.#terminal.focus()
  }

  apply({ fontSize, screenReader }: Preferences): void {
    this.#terminal.options.fontSize = fontSize
    this.#terminal.options.screenReaderMode = screenReader
    this.#fit.fit()
  }

  /** @returns whether the text was found */
  find(text: string, direction: 'next' | 'previous'): boolean {
    return direction === 'next' ? this.#search.findNext(text) : this.#search.findPrevious(text)
  }

  close(): void {
    this.#observer.disconnect()
    this.#terminal.dispose()
  }

  #isForGuest(event: KeyboardEvent): boolean {
    const act = event.type === 'keydown' ? this.#actionOf(event) : undefined
    if (!act) return true
    event.preventDefault()
    event.stopPropagation()
    act()
    return false
  }

  /** Keys for the panel instead of the guest. Ctrl+Shift+V is the browser's own paste. */
  #actionOf({ code, ctrlKey, shiftKey }: KeyboardEvent): (() => void) | undefined {
    if (!ctrlKey || !shiftKey) return undefined
    if (code === 'KeyF') return () => this.parts.onSearch()
    const selected = this.#terminal.getSelection()
    if (code !== 'KeyC' || selected === '') return undefined
    return () => void navigator.clipboard?.writeText(selected).catch(() => undefined)
  }
}

/** Draws with WebGL if it is available and until it is lost, and otherwise with elements of the page. */
function drawByGraphicsCard(terminal: Terminal): void {
  try {
    const addon = new WebglAddon()
    addon.onContextLoss(() => addon.dispose())
    terminal.loadAddon(addon)
  } catch {
    // Elements are used without WebGL.
  }
}
