import { Type } from 'typebox'

/** Schema options of a section: unknown keys are refused, and a missing section gets its defaults. */
export const section = { additionalProperties: false, default: {} }

export const absolutePath = (value: string) => Type.String({ pattern: '^/[^\\n]*$', default: value })
