import { asFailure, type ApiFailure } from '../api/failure.ts'
import { inParallel } from '../api/in-parallel.ts'

export const finishedStatuses = ['done', 'failed', 'canceled'] as const
export type FinishedStatus = (typeof finishedStatuses)[number]
/** Number of tasks that are read with one request. */
export const readAtOnce = 1000

interface Page {
  readonly rows: readonly { readonly task_id: string }[]
  readonly total: number
}

/**
 * Returns the ids of all finished tasks.
 * @param status status of the tasks; empty: all statuses; another status than those of finished tasks finds nothing
 * @param read reads a page of up to `readAtOnce` tasks with a status
 */
export async function findFinished(
  status: string,
  read: (status: FinishedStatus, page: number) => Promise<Page>,
): Promise<string[]> {
  const ids = new Set<string>()
  for (const one of finishedStatuses.filter((name) => status === '' || name === status)) {
    for (let page = 1, total = 1; (page - 1) * readAtOnce < total; page++) {
      const answer = await read(one, page)
      total = answer.total
      for (const { task_id: id } of answer.rows) ids.add(id)
    }
  }
  return [...ids]
}

/** Removes tasks. Tasks that somebody else has removed count as removed. @throws {ApiFailure} the first failure, at the end */
export async function removeAll(ids: readonly string[], remove: (id: string) => Promise<void>): Promise<void> {
  const failures: ApiFailure[] = []
  await inParallel(ids, async (id) => {
    await remove(id).catch((thrown: unknown) => failures.push(asFailure(thrown)))
  })
  const [first] = failures.filter(({ code }) => code !== 'not_found')
  if (first) throw first
}
