import { invalidField } from './errors.js'

/* Rules for the labels of a guest, checked by the gateway and again by the agent. */

export const maxTags = 16
export const tagPattern = '^[a-z0-9_.:-]{1,32}$'
export const tagRule = 'must be 1 to 32 lower-case letters, digits, "-", "_", "." and ":"'
/** Plain text that can have several lines, for a regular expression with the flag `u`. */
export const notePattern = '^(?:[^\\p{Cc}]|[\\n\\t]){0,1000}$'
export const noteRule = 'must be at most 1000 printable characters, tabs and line breaks'

export interface GuestLabels {
  /** Tags in alphabetical order, each once. */
  readonly tags: readonly string[]
  /** Plain text that only the provider sees. */
  readonly note: string
  /** True if the guest can neither be deleted nor reinstalled. */
  readonly deleteProtected: boolean
}

export const noLabels: Readonly<GuestLabels> = { tags: [], note: '', deleteProtected: false }

const tag = new RegExp(tagPattern)
const note = new RegExp(notePattern, 'u')

/** @returns each tag once, in alphabetical order. @throws {BerthError} `invalid_field` */
export function parseTags(names: readonly string[]): string[] {
  if (!names.every((name) => tag.test(name))) throw invalidField('tags', `tags: each tag ${tagRule}`, { name: 'tag' })
  const tags = [...new Set(names)].sort()
  if (tags.length > maxTags) throw invalidField('tags', `tags: must be at most ${maxTags} tags`)
  return tags
}

/** @throws {BerthError} `invalid_field` */
export function checkNote(text: string): string {
  if (!note.test(text)) throw invalidField('note', `note: ${noteRule}`, { name: 'note' })
  return text
}
