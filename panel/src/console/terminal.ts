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
  /** Label of the terminal for screen readers. */
  readonly label: string
  /** Called with text from the user, and with the terminal's answers to queries of programs. */
  onText(text: string): void
  /** Called with reports about the mouse, whose bytes are not text. */
  onBytes(bytes: Uint8Array): void
  onSize(size: Size): void
  /** Called when the user clicks a link in the guest's output. */
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
 * Control sequences that xterm.js repeats as often as their count says. With a count of a billion, a guest could block
 * the page. Sequences with a count above `mostCount` are therefore ignored.
 */
const counted = [...'ILMSTZb'].map((final) => ({ final }))
const mostCount = 1000
/** Output is shown in pieces of this size, each with few control sequences. Between pieces, the page can react. */
const pieceBytes = 512

/**
 * A terminal inside an element. Output of the guest cannot change the page: titles, the clipboard (OSC 52) and window
 * commands are ignored, and links need a confirmation.
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
      logLevel: 'off', // hides messages about invalid output of the guest
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
    // Only tests listen to this event. The page shows the terminal's text as pixels, so tests need the terminal object.
    parts.element.dispatchEvent(new CustomEvent('terminal', { detail: terminal, bubbles: true }))
  }

  get size(): Size {
    return { cols: this.#terminal.cols, rows: this.#terminal.rows }
  }

  /** True if a program has switched the arrow keys to application mode (DECCKM). */
  get hasApplicationCursor(): boolean {
    return this.#terminal.modes.applicationCursorKeysMode
  }

  /** @param isReplay true for output that was shown before: the terminal does not answer queries in this output */
  show(bytes: Uint8Array, shown: () => void, isReplay: boolean): void {
    if (isReplay) this.#replays++
    let at = 0
    for (; bytes.length - at > pieceBytes; at += pieceBytes) this.#terminal.write(bytes.subarray(at, at + pieceBytes))
    this.#terminal.write(bytes.subarray(at), () => {
      if (isReplay) this.#replays--
      shown()
    })
  }

  /** Sends a text to the guest as if the user had typed it. */
  type(text: string): void {
    this.#terminal.input(text)
  }

  /** Sends text as if the user had pasted it: programs that ask for it can tell pasted text from typed text. */
  paste(text: string): void {
    this.#terminal.paste(text)
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

  /** Searches the output. @returns true if the text was found */
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

  /** Returns the action of a key that the panel handles itself. The browser handles Ctrl+Shift+V, which pastes. */
  #actionOf({ code, ctrlKey, shiftKey }: KeyboardEvent): (() => void) | undefined {
    if (!ctrlKey || !shiftKey) return undefined
    if (code === 'KeyF') return () => this.parts.onSearch()
    const selected = this.#terminal.getSelection()
    if (code !== 'KeyC' || selected === '') return undefined
    return () => void navigator.clipboard?.writeText(selected).catch(() => undefined)
  }
}

/** Draws with WebGL if it is available. If not, draws with elements of the page. */
function drawByGraphicsCard(terminal: Terminal): void {
  try {
    const addon = new WebglAddon()
    addon.onContextLoss(() => addon.dispose())
    terminal.loadAddon(addon)
  } catch {
    // WebGL is not available: elements of the page are used.
  }
}
