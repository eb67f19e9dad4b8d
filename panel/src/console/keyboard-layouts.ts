/** One key press, with its modifiers. */
export interface KeyPress {
  /** Name of the key's position, as in `KeyboardEvent.code`. It is the name of the key on a US keyboard. */
  readonly code: string
  /** Symbol of the key on a US keyboard, for VNC servers that use symbols instead of positions. */
  readonly keysym: number
  readonly shift: boolean
  readonly altGr: boolean
}

const rows = [
  ['Backquote', 'Digit1', 'Digit2', 'Digit3', 'Digit4', 'Digit5', 'Digit6', 'Digit7', 'Digit8', 'Digit9'],
  ['Digit0', 'Minus', 'Equal', 'KeyQ', 'KeyW', 'KeyE', 'KeyR', 'KeyT', 'KeyY', 'KeyU', 'KeyI', 'KeyO'],
  ['KeyP', 'BracketLeft', 'BracketRight', 'KeyA', 'KeyS', 'KeyD', 'KeyF', 'KeyG', 'KeyH', 'KeyJ', 'KeyK'],
  ['KeyL', 'Semicolon', 'Quote', 'Backslash', 'IntlBackslash', 'KeyZ', 'KeyX', 'KeyC', 'KeyV', 'KeyB'],
  ['KeyN', 'KeyM', 'Comma', 'Period', 'Slash'],
] as const
const codes: readonly string[] = rows.flat()

/*
 * The characters of each key, in the order of `codes`: without a modifier, with Shift and with AltGr. A space stands
 * for a key without a character or for a dead key. Source: the symbol files of xkeyboard-config.
 */
const unitedStates = {
  alone: "`1234567890-=qwertyuiop[]asdfghjkl;'\\ zxcvbnm,./",
  shifted: '~!@#$%^&*()_+QWERTYUIOP{}ASDFGHJKL:"| ZXCVBNM<>?',
  altGr: '',
}
const layouts = {
  us: unitedStates,
  gb: {
    alone: "`1234567890-=qwertyuiop[]asdfghjkl;'#\\zxcvbnm,./",
    shifted: '¬!"£$%^&*()_+QWERTYUIOP{}ASDFGHJKL:@~|ZXCVBNM<>?',
    altGr: '    €',
  },
  de: {
    alone: ' 1234567890ß qwertzuiopü+asdfghjklöä#<yxcvbnm,.-',
    shifted: '°!"§$%&/()=? QWERTZUIOPÜ*ASDFGHJKLÖÄ\'>YXCVBNM;:_',
    altGr: '  ²³   {[]}\\ @ €                     |      µ',
  },
  fr: {
    alone: '²&é"\'(-è_çà)=azertyuiop $qsdfghjklmù*<wxcvbn,;:!',
    shifted: ' 1234567890°+AZERTYUIOP £QSDFGHJKLM%µ>WXCVBN?./§',
    altGr: '  ~#{[|`\\^@]}  €        ¤',
  },
} as const

/** Name of the keyboard layout that the guest uses. */
export type Layout = keyof typeof layouts
export const layoutNames = Object.keys(layouts) as Layout[]

const whitespace: Readonly<Record<string, KeyPress>> = {
  ' ': { code: 'Space', keysym: 0x20, shift: false, altGr: false },
  '\n': { code: 'Enter', keysym: 0xff0d, shift: false, altGr: false },
  '\t': { code: 'Tab', keysym: 0xff09, shift: false, altGr: false },
}

const tables = new Map<Layout, ReadonlyMap<string, KeyPress>>()

function tableOf(layout: Layout): ReadonlyMap<string, KeyPress> {
  const made = tables.get(layout) ?? new Map(pressesOf(layout))
  tables.set(layout, made)
  return made
}

function* pressesOf(layout: Layout): Generator<[string, KeyPress]> {
  const { alone, shifted, altGr } = layouts[layout]
  yield* Object.entries(whitespace)
  for (const [characters, shift, isAltGr] of [
    [altGr, false, true],
    [shifted, true, false],
    [alone, false, false],
  ] as const)
    for (const [at, character] of [...characters].entries())
      if (character !== ' ') yield [character, pressOf(at, shift, isAltGr)]
}

function pressOf(at: number, shift: boolean, altGr: boolean): KeyPress {
  const symbols = shift ? unitedStates.shifted : unitedStates.alone
  const symbol = symbols[at]?.trim() || '<'
  return { code: codes[at] ?? '', keysym: symbol.charCodeAt(0), shift, altGr }
}

/**
 * Plans the key presses that write a text with this layout.
 * @returns `missing`: each character that the layout cannot write; if it is not empty, `presses` is empty
 */
export function planTyping(
  text: string,
  layout: Layout,
): { readonly presses: readonly KeyPress[]; readonly missing: readonly string[] } {
  const table = tableOf(layout)
  const characters = [...text.replaceAll(/\r\n?/g, '\n')]
  const missing = [...new Set(characters.filter((character) => !table.has(character)))]
  if (missing.length > 0) return { presses: [], missing }
  return { presses: characters.flatMap((character) => table.get(character) ?? []), missing }
}
