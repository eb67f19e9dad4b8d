/* The language of manual pages (man(7)). */

/** Escapes a text, so that roff prints it unchanged. */
export function escapeRoff(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^(?=[.'])/gm, '\\&')
    .replace(/\s*\n\s*/g, ' ')
}

export const bold = (text: string): string => `\\fB${escapeRoff(text)}\\fP`

/** Converts prose to roff. Text between backticks becomes bold. */
export function proseRoff(text: string): string {
  return text
    .split(/`([^`]*)`/)
    .map((part, index) => (index % 2 === 0 ? escapeRoff(part) : bold(part)))
    .join('')
}

export const section = (title: string, ...content: readonly string[]): string => [`.SH ${title}`, ...content].join('\n')

/** Returns a term with an indented explanation. Lists can be nested. */
export function entry(term: string, text: string, nested: readonly string[] = []): string {
  const inner = nested.length === 0 ? [] : ['.RS', ...nested, '.RE']
  return ['.TP', term, proseRoff(text) || '\\&', ...inner].join('\n')
}
