import { createHash } from 'node:crypto'
import { Type, type Static } from 'typebox'
import { eachLimited } from '../../../shared/async/each-limited.js'
import { BerthError } from '../../../shared/errors.js'
import { toldTo } from '../../http/bound.js'
import { mayTurnOutBetter, shownError } from '../../http/errors.js'
import type { RequestContext } from '../../http/route.js'

/** Maximum number of guests in a batch. */
export const mostGuests = 100

/** Maximum number of concurrent requests to agents. */
const parallel = 8

export const FailedSchema = Type.Object({ name: Type.String(), code: Type.String(), message: Type.String() })
type FailedPart = Static<typeof FailedSchema>

export const TaskIdsSchema = Type.Array(Type.String())
export const failedSchema = Type.Array(FailedSchema, {
  description:
    'Containers for which the request failed after the check of all containers had succeeded. It takes effect for the others.',
})

/** Results of the operations that were accepted, and a list of those that were rejected. */
export interface PartsDone<Result> {
  readonly done: Result[]
  readonly failed: FailedPart[]
  /** True if a repetition of the request can have a better result. In this case, the answer is not stored. */
  readonly unsettled: boolean
}

type Context = Pick<RequestContext<unknown, unknown, unknown>, 'caller' | 'log'>

/**
 * Submits all operations, a few at a time, even if some are rejected. Internal failures are logged.
 * @throws if all were rejected: the first error that can be temporary, or else the first error
 */
export async function orderEach<One, Result>(
  context: Context,
  list: readonly { readonly name: string; readonly one: One }[],
  order: (one: One) => Promise<Result>,
): Promise<PartsDone<Result>> {
  const done: (Result | undefined)[] = []
  const failures: { index: number; error: unknown }[] = []
  await eachLimited([...list.entries()], { limit: parallel }, ([index, { one }]) =>
    order(one).then(
      (result) => void (done[index] = result),
      (error: unknown) => void failures.push({ index, error }),
    ),
  )
  failures.sort((a, b) => a.index - b.index)
  const passing = failures.find(({ error }) => mayTurnOutBetter(shownError(error).status))
  if (failures.length === list.length && failures[0]) throw (passing ?? failures[0]).error
  return {
    done: list.flatMap((_, index) => done[index] ?? []),
    failed: failures.map(({ index, error }) => describeFailure(context, list[index]!.name, error)),
    unsettled: passing !== undefined,
  }
}

function describeFailure({ caller, log }: Context, name: string, error: unknown): FailedPart {
  const { status, shown } = shownError(toldTo(caller, error))
  if (status >= 500) log.error({ err: error, container: name }, 'the request for one container of a batch failed')
  return { name, code: shown.code, message: shown.message }
}

/** Derives the id of one part of an operation: a uuid of version 8 (RFC 9562). Repetitions get the same id. */
export function partOf(operationId: string, part: string): string {
  const hex = createHash('sha256').update(`${operationId}\n${part}`).digest('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  )
}

export function missing(field: string): BerthError {
  return new BerthError('invalid', 'missing_field', `${field}: is required`, { field })
}

export function namesOf(list: readonly { readonly name: string }[]): string {
  const names = list.map(({ name }) => name)
  return names.length > 5 ? `${names.slice(0, 5).join(', ')} and ${names.length - 5} more` : names.join(', ')
}
