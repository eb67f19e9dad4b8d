import { Type, type TSchema, type TString, type TUnsafe } from 'typebox'

/** One of a few words; an enum in the document and in error messages. */
export function oneOf<const Word extends string>(words: readonly Word[], description?: string): TUnsafe<Word> {
  return Type.Unsafe<Word>({
    type: 'string',
    enum: [...words],
    ...(description === undefined ? {} : { description }),
  })
}

/** The envelope of a success. */
export function envelopeSchema(data: TSchema | undefined, more: Record<string, TSchema> = {}): TSchema {
  return Type.Object({
    success: Type.Literal(true),
    message: Type.Optional(Type.String()),
    ...(data === undefined ? {} : { data }),
    ...more,
  })
}

/** The envelope of a failure. */
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
              'Only for `agent_timeout`: id of the task that carries out the request. Its result is at `/tasks/{task_id}`.',
          }),
        ),
      }),
    ),
    request_id: Type.String(),
  },
  { title: 'Error' },
)

const timePattern = '^(\\d{4}-\\d{2}-\\d{2} \\d{2}:\\d{2}:\\d{2})?$'

/** Time in the server's zone; "" for never. */
export const TimeSchema = Type.String({
  description: '`YYYY-MM-DD HH:MM:SS` in the server’s time zone. Empty: never, or not yet.',
  pattern: timePattern,
})

/** Time in a zone that the description names; "" for never. */
export function localTimeSchema(description: string): TString {
  return Type.String({ description, pattern: timePattern })
}
