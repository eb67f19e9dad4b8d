import type { Flag } from './operation.js'
import { wordingOf, type WordingContext } from './wording.js'

/* This module converts the descriptions of fields to texts of flags. */

export function flagText(flag: Flag, context: WordingContext): string {
  // The text of `sort` names columns, which must not be replaced by names of flags.
  const text = wordingOf(flag.text, flag.field === 'sort' ? { ...context, flags: [] } : context)
  return switchText(flag, flag.names === undefined ? text : namedText(text, flag.isList ?? false))
}

/**
 * Replaces `true` and `false` in the text of a switch by `--name` and `--no-name`. If the text describes only `--name`,
 * omits the prefix.
 */
function switchText({ name, type }: Flag, text: string): string {
  if (type !== 'switch') return text
  const [on, off] = [`\`--${name}\``, `\`--no-${name}\``]
  const named = text.replaceAll(/`true`(?=: | \(|\.)/g, on).replaceAll(/`false`(?=: | \(|\.)/g, off)
  if (!named.startsWith(`${on}: `) || named.includes(off)) return named
  return named.slice(on.length + 2).replace(/^./, (first) => first.toUpperCase())
}

/** Says that a flag accepts a name, although the API needs an id. */
function namedText(text: string, isList: boolean): string {
  if (/names?\b.*uuid/i.test(text)) return text
  const [one, many] = ['Name, id or UUID', 'Names, ids or UUIDs']
  const replaced = text
    .replace(/^(Ids?|UUIDs?|Names? or ids?|Ids? or names?) of/, `${isList ? many : one} of`)
    .replace(/ with this (id|UUID)\./, '.')
  return /UUID/.test(replaced)
    ? replaced
    : replaced.replace(/\.(?= |$)/, ` (${isList ? many : one}).`.toLowerCase().replaceAll('uuid', 'UUID'))
}
