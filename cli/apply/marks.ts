import type { Fields } from './kinds.js'

/*
 * The tag that marks guests which apply has created. Each set of a fleet file has its own tag. Without this, files of
 * different sets would delete each other's guests.
 */

const prefix = 'berth.apply:'
export const defaultSet = 'main'

/** True if the name of a set is valid. The name becomes part of a tag, which has at most 32 characters. */
export const isSetName = (name: string): boolean => /^[a-z0-9_.-]{1,20}$/.test(name)

export const markOf = (set: string): string => `${prefix}${set}`

export const isMark = (tag: string): boolean => tag.startsWith(prefix)

/** Adds the tags of sets to the tags of an object, because a file does not list them. No `tags`: adds nothing. */
export function withMarks(fields: Fields, marks: readonly string[]): Fields {
  const { tags } = fields as { tags?: readonly string[] }
  return tags === undefined ? fields : { ...fields, tags: [...new Set([...tags, ...marks])].sort() }
}

/** Returns the fields of a new guest, to whose tags the tag of its set is added. */
export const withMark = (fields: Fields, set: string): Fields => withMarks({ tags: [], ...fields }, [markOf(set)])
