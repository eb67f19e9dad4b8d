/** Removes control characters from guests' texts, as they could change the terminal. Keeps line breaks and tabs. */
export const withoutControls = (text: string): string => text.replace(/[^\P{Cc}\r\n\t]/gu, '')

/** Returns a function that removes control characters from parts of a text. A part may end within a character. */
export function controlFilter(): (part: Uint8Array) => string {
  const decoder = new TextDecoder()
  return (part) => withoutControls(decoder.decode(part, { stream: true }))
}
