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

/** Time in the server's time zone. "": never, or not yet. */
export const TimeSchema = Type.String({
  description:
    'Time as `YYYY-MM-DD HH:MM:SS`, in the server’s time zone. Empty: there is no such time, for example because nothing expires or a task has not ended.',
  pattern: timePattern,
})

/** Time in a time zone that the description names. "": never. */
export function localTimeSchema(description: string): TString {
  return Type.String({ description, pattern: timePattern })
}
