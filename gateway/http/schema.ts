import { Type, type TSchema, type TString, type TUnsafe } from 'typebox'

/** Schema of a text that must be one of these words. */
export function oneOf<const Word extends string>(words: readonly Word[], description?: string): TUnsafe<Word> {
  return Type.Unsafe<Word>({
    type: 'string',
    enum: [...words],
    ...(description === undefined ? {} : { description }),
  })
}

/** Schema of a successful answer. */
export function envelopeSchema(data: TSchema | undefined, more: Record<string, TSchema> = {}): TSchema {
  return Type.Object({
    success: Type.Literal(true),
    message: Type.Optional(Type.String()),
    ...(data === undefined ? {} : { data }),
    ...more,
  })
}

export const ErrorSchema = Type.Object(
  {
    success: Type.Literal(false),
    message: Type.String({ description: 'Human-readable message. It may change.' }),
    code: Type.String({ pattern: '^[a-z0-9_]+$', description: 'Stable error code.' }),
    details: Type.Optional(
      Type.Object({
        field: Type.Optional(Type.String({ description: 'Field, parameter or header that was refused.' })),
        rule: Type.Optional(
          Type.String({
            pattern: '^[a-z0-9_]+$',
            description: 'Stable name of the violated rule, such as `range`. Not all errors have one.',
          }),
        ),
        values: Type.Optional(
          Type.Record(Type.String(), Type.Union([Type.String(), Type.Number()]), {
            description:
              'Values that belong to the rule, by name: its limits, such as `min` and `max` of the rule `range`, or amounts, such as `requested` and `free`.',
          }),
        ),
        task_id: Type.Optional(
          Type.String({
            description:
              'Id of the task that carries out the request. Only returned for `agent_timeout`. `GET /tasks/{task_id}` returns its result.',
          }),
        ),
      }),
    ),
    request_id: Type.String(),
  },
  { title: 'Error' },
)

const timePattern = '^(\\d{4}-\\d{2}-\\d{2} \\d{2}:\\d{2}:\\d{2})?$'

const timeFormat = '`YYYY-MM-DD HH:MM:SS` in the server’s time zone'

/** Time in the server's time zone. The name of the field states the event that happens at this time. */
export const TimeSchema = Type.String({ description: `Time as ${timeFormat}.`, pattern: timePattern })

/**
 * Time in the server's time zone.
 * @param what event that happens at this time
 * @param empty meaning of an empty text. Default: the field is never empty
 */
export function timeSchema(what: string, empty = ''): TString {
  const meaning = `Time at which ${what}, as ${timeFormat}.`
  return Type.String({ description: empty ? `${meaning} Empty: ${empty}.` : meaning, pattern: timePattern })
}

/** Time in a time zone that the description names. "": never. */
export function localTimeSchema(description: string): TString {
  return Type.String({ description, pattern: timePattern })
}
