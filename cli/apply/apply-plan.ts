import { eachLimited } from '../../shared/async/each-limited.js'
import { CliError, cliErrorOf, exitCodes } from '../errors.js'
import { changeGuest, createGuest, deleteGuest, waitUntilCreated, type ApplyContext } from './apply-guest.js'
import { titleOf } from './difference.js'
import { kinds } from './kinds.js'
import type { Alteration, Change, Creation, Plan } from './plan-changes.js'
import type { CurrentItem } from './plan-current.js'
import { changeRequest, createRequest } from './plan-requests.js'
import { parallelRequests, readPresent } from './read-present.js'

/* This module carries out a plan. A failed change does not stop the other changes. */

export interface Progress {
  /** Shows the progress of the run. */
  show(line: string): void
  /** Reports the end of a change. */
  report(line: string): void
}

interface Job {
  readonly title: string
  readonly result: string
  /** True if the job is skipped after a failure in an earlier stage. Only set for deletions. */
  readonly needsAll?: true
  run(context: ApplyContext): Promise<void>
}

export interface Outcome {
  readonly all: number
  readonly failed: number
}

export async function applyPlan(context: ApplyContext, plan: Plan, progress: Progress): Promise<Outcome> {
  const stages = stagesOf(plan)
  const count = { all: stages.flat().length, done: 0, failed: 0 }
  const show = (): void => progress.show(`${count.done} of ${count.all} done, ${count.failed} failed`)
  const run = async (job: Job, now: ApplyContext, isBlocked: boolean): Promise<void> => {
    const failure = isBlocked && job.needsAll ? 'skipped, because another change failed' : await failureOf(job, now)
    if (failure === undefined) count.done++
    else count.failed++
    progress.report(`${job.title}: ${failure ?? job.result}`)
    show()
  }
  show()
  for (const stage of stages) {
    if (stage.length === 0) continue
    const now = { ...context, names: await readNames(context) }
    const isBlocked = count.failed > 0
    await eachLimited(stage, { limit: parallelRequests }, (job) => run(job, now, isBlocked))
  }
  return count
}

/** Reads the names of guests again, because requests for API keys need the UUIDs of new guests. */
async function readNames({ client }: ApplyContext): Promise<ApplyContext['names']> {
  const options = { sections: new Set<string>(), needsFirewall: () => false, isLenient: true }
  return (await readPresent(client, options)).names
}

/** Returns the reason why a job failed; undefined: it succeeded. */
async function failureOf(job: Job, context: ApplyContext): Promise<string | undefined> {
  try {
    await job.run(context)
    return undefined
  } catch (cause) {
    const error = cliErrorOf(cause)
    if (!error) throw cause
    return `failed: ${error.message}`
  }
}

/** Groups the jobs. The jobs of a group need the results of earlier groups. Deletions are in the last group. */
function stagesOf({ changes, unfinished }: Plan): Job[][] {
  const changed = new Set(changes.flatMap((change) => (change.action === 'change' ? [change.current] : [])))
  const waits = unfinished.filter((guest) => !changed.has(guest)).map(waitJob)
  const stages = kinds.map((kind) =>
    changes.filter((change) => change.action !== 'delete' && change.wanted.kind === kind).map(jobOf),
  )
  return [waits, ...stages, changes.filter(({ action }) => action === 'delete').map(jobOf)]
}

function waitJob(guest: CurrentItem): Job {
  return {
    title: `guest ${guest.name}`,
    result: 'created',
    run: (context) => waitUntilCreated(context, guest),
  }
}

function jobOf(change: Change): Job {
  const title = titleOf(change)
  if (change.action === 'delete')
    return { title, result: 'deleted', needsAll: true, run: (context) => deleteGuest(context, change) }
  const isGuest = change.wanted.kind.noun === 'guest'
  if (change.action === 'create') {
    const create = isGuest ? createGuest : createAccount
    return { title, result: 'created', run: (context) => create(context, change.wanted) }
  }
  const alter = isGuest ? changeGuest : changeItem
  return { title, result: 'changed', run: (context) => alter(context, change) }
}

/** Creates an object that is not a guest, and shows its secret. */
async function createAccount(context: ApplyContext, wanted: Creation['wanted']): Promise<void> {
  const { client, names } = context
  const { body } = await client.send(createRequest(wanted, names))
  const made = body.data as Readonly<Record<string, unknown>>
  if (made['created'] === false)
    throw new CliError(exitCodes.conflict, 'was created in the meantime: run the command again')
  const secrets = ['password', 'link', 'key', 'secret'].filter((name) => Boolean(made[name]))
  for (const name of secrets) context.showSecret(`${wanted.kind.noun} ${wanted.name}: ${name} ${String(made[name])}`)
}

async function changeItem({ client, names }: ApplyContext, change: Alteration): Promise<void> {
  await client.send(changeRequest(change, names))
}
