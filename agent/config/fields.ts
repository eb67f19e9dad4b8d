import { Type } from 'typebox'

/** Options of a section: unknown keys are refused, and a missing section has its defaults. */
export const section = { additionalProperties: false, default: {} }

export const absolutePath = (value: string) => Type.String({ pattern: '^/[^\\n]*$', default: value })
