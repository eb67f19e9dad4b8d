/** A key of the bar that telephones get, whose keyboards have none of them. */
export interface BarKey {
  readonly label: string
  /** For those who hear it; its label where absent. */
  readonly name?: string
  /** What it sends: where a program wants its own arrows, the second. */
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

/** Modifiers that were tapped, for the next key. */
export interface PendingModifiers {
  readonly ctrl: boolean
  readonly alt: boolean
}

/** What is sent for a key while modifiers are held; texts that are no key stay as they are. */
export function withHeld(text: string, { ctrl, alt }: PendingModifiers): string {
  const isArrow = barKeys.some((key) => key.application !== undefined && [key.text, key.application].includes(text))
  if (text.length !== 1 && !isArrow) return text
  if (ctrl && isArrow) return `\x1b[1;5${text.at(-1)}`
  return (alt ? '\x1b' : '') + (ctrl ? controlOf(text) : text)
}

/** As terminals do it: the lowest five bits of a letter or of @ [ \ ] ^ _ */
function controlOf(text: string): string {
  if (text === ' ') return '\0'
  if (text === '?') return '\x7f'
  const code = text.toUpperCase().charCodeAt(0)
  return code >= 0x40 && code <= 0x5f ? String.fromCharCode(code & 0x1f) : text
}
