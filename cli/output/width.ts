/* Widths of texts in a terminal, and the removal of characters that would control it. */

const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u
const zero = /\p{Mn}|\p{Me}|\u200b|\u200d|\ufe0f/u

/** Printable ASCII characters, each of which occupies one column. Most texts contain only these. */
const plain = /^[ -~]*$/

/** Number of columns that a text occupies. */
export function widthOf(text: string): number {
  if (plain.test(text)) return text.length
  let width = 0
  for (const character of text) width += zero.test(character) ? 0 : wide.test(character) ? 2 : 1
  return width
}

export function cutTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text
  let cut = ''
  for (const character of text) {
    if (widthOf(cut + character) >= width) break
    cut += character
  }
  return `${cut}…`
}

export function padTo(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - widthOf(text)))
}

/** Replaces control characters, because they could change the terminal. Names and messages can come from guests. */
export function printable(text: string): string {
  if (plain.test(text)) return text
  return text.replace(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, (character) =>
    /[\n\t\r]/.test(character) ? ' ' : '\ufffd',
  )
}
