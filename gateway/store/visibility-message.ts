import { Ajv2020 } from 'ajv/dist/2020.js'
import { Type, type Static } from 'typebox'

/** Maximum length of a message. The longest messages are questions with the revisions of all hosts of a fleet. */
const maxLength = 1_000_000
/** Maximum number of revisions in a question. The answering gateway waits for each of them. */
const maxRevisions = 10_000

const Id = Type.String({ minLength: 1, maxLength: 64 })
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const Revision = Type.Object({ hostId: Id, revision: Count })
const Revisions = Type.Array(Revision, { maxItems: maxRevisions })

const MessageSchema = Type.Union([
  Type.Object({ kind: Type.Literal('serving'), from: Id }),
  Type.Object({ kind: Type.Literal('leaving'), from: Id }),
  Type.Object({ kind: Type.Literal('question'), from: Id, round: Count, shown: Revisions }),
  Type.Object({ kind: Type.Literal('answer'), from: Id, round: Count, to: Id }),
])

/**
 * `serving`: the sender may use its caches now. `leaving`: the sender no longer uses them. `question`: asks for an
 * answer when all earlier changes are applied and the revisions `shown` are shown. `answer`: the sender has done both.
 */
export type Message = Static<typeof MessageSchema>
export type Question = Extract<Message, { readonly kind: 'question' }>

/** Revision of the data that a host's agent reports to all gateways. */
export type HostRevision = Readonly<Static<typeof Revision>>

// The schema is not validated, because compiling the meta-schema takes 50 ms at each start.
const isMessage = new Ajv2020({ strict: true, validateSchema: false }).compile<Message>(MessageSchema)

/**
 * Parses a message of the channel, to which other programs can publish as well. Unknown fields are ignored.
 * @returns undefined if the text is not a message that this version knows
 */
export function parseMessage(text: string): Message | undefined {
  if (text.length > maxLength) return undefined
  try {
    const message: unknown = JSON.parse(text)
    return isMessage(message) ? message : undefined
  } catch {
    return undefined
  }
}
