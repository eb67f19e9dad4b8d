import type { Fields } from './kinds.js'

/*
 * The tag of guests that `berth apply` has created. The tag contains the name of the file's set. With one tag for all
 * sets, files of different sets would delete each other's guests.
 */

const prefix = 'berth.apply:'
export const defaultSet = 'main'

/** True if the name of a set is valid. The name becomes part of a tag, which has at most 32 characters. */
export const isSetName = (name: string): boolean => /^[a-z0-9_.-]{1,20}$/.test(name)

export const markOf = (set: string): string => `${prefix}${set}`

export const isMark = (tag: string): boolean => tag.startsWith(prefix)

/** Adds `marks` (tags of sets, which files do not list) to the field `tags`. Without this field, adds nothing. */
export function withMarks(fields: Fields, marks: readonly string[]): Fields {
  const { tags } = fields as { tags?: readonly string[] }
  return tags === undefined ? fields : { ...fields, tags: [...new Set([...tags, ...marks])].sort() }
}

/** Adds the tag of the set to the tags of a new guest. */
export const withMark = (fields: Fields, set: string): Fields => withMarks({ tags: [], ...fields }, [markOf(set)])
