import type { Schema } from './flags.js'
import type { AnswerForm, GlobalFlag } from './operation.js'

/* This module decides which global flags are useful for the command of an operation. The help shows only these. */

/** Fields that `--quiet` can print. */
const idFields = ['id', 'task_id', 'uuid', 'name', 'username']

/**
 * @param answer schema of the answer's envelope
 * @param resolve resolves a `$ref`
 * @param isAccepted true if the API can answer 202, which starts tasks
 */
export function globalFlagsOf(
  form: AnswerForm,
  answer: Schema,
  { resolve, isAccepted }: { readonly resolve: (schema: Schema) => Schema; readonly isAccepted: boolean },
): GlobalFlag[] {
  if (form !== 'envelope') return ['context']
  const { hasContent, isList, fields, hasTexts } = contentOf(answer, resolve)
  const startsTask = isAccepted && (hasTexts || fields.includes('task_id'))
  return [
    ...(hasContent ? (['output', 'jq'] as const) : []),
    ...(isList ? (['columns'] as const) : []),
    ...(startsTask || idFields.some((field) => fields.includes(field)) ? (['quiet'] as const) : []),
    'context',
    ...(startsTask ? (['wait', 'timeout'] as const) : []),
  ]
}

/** Describes the content of an answer. `fields`: of the object, or of each object in a list. */
function contentOf({ properties: envelope = {} }: Schema, resolve: (schema: Schema) => Schema) {
  const { success: _, message: __, ...content } = envelope
  const data = resolve(content['data'] ?? {})
  const items = resolve(data.items ?? {})
  const isList = data.type === 'array'
  return {
    hasContent: Object.keys(content).length > 0,
    isList,
    fields: Object.keys((isList ? items : data).properties ?? {}),
    hasTexts: items.type === 'string',
  }
}
