/** Splits words that are separated by spaces or commas. */
export function splitWords(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean)
}
