/** A key of the bar for phones, whose on-screen keyboards lack such keys. */
export interface BarKey {
  readonly label: string
  /** Name for screen readers. Default: the label. */
  readonly name?: string
  /** The text that the key sends. In application mode, arrow keys send other texts. */
  readonly text: string
  readonly application?: string
}

const arrow = (label: string, name: string, letter: string): BarKey => ({
  label,
  name,
  text: `\x1b[${letter}`,
  application: `\x1bO${letter}`,
})

export const barKeys: readonly BarKey[] = [
  { label: 'Esc', text: '\x1b' },
  { label: 'Tab', text: '\t' },
  arrow('←', 'ArrowLeft', 'D'),
  arrow('↓', 'ArrowDown', 'B'),
  arrow('↑', 'ArrowUp', 'A'),
  arrow('→', 'ArrowRight', 'C'),
  { label: '|', text: '|' },
  { label: '/', text: '/' },
  { label: '-', text: '-' },
  { label: '~', text: '~' },
]

/** Modifiers that the user has tapped. They apply to the next key. */
export interface PendingModifiers {
  readonly ctrl: boolean
  readonly alt: boolean
}

/** Returns the text that a key of the bar sends with these modifiers, which change only characters and arrow keys. */
export function withHeld(text: string, { ctrl, alt }: PendingModifiers): string {
  const isArrow = barKeys.some((key) => key.application !== undefined && [key.text, key.application].includes(text))
  if (text.length !== 1 && !isArrow) return text
  if (ctrl && isArrow) return `\x1b[1;5${text.at(-1)}`
  return (alt ? '\x1b' : '') + (ctrl ? controlOf(text) : text)
}

/** Returns the control character of a key, as terminals do. For letters and @ [ \ ] ^ _, it is the lowest five bits. */
function controlOf(text: string): string {
  if (text === ' ') return '\0'
  if (text === '?') return '\x7f'
  const code = text.toUpperCase().charCodeAt(0)
  return code >= 0x40 && code <= 0x5f ? String.fromCharCode(code & 0x1f) : text
}
