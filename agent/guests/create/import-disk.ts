import { conflict } from '../../../shared/errors.js'
import type { StepContext } from '../../operations/types.js'
import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { awaitSettled } from '../snapshots/snapshot-space.js'
import { volumeLimitOf } from '../snapshots/volume-bound.js'

type ImportContext = Pick<GuestContext, 'imports' | 'machines' | 'store' | 'volumes'>
type ImportStep = StepContext<{ readonly importId?: string }>

const gib = 1024 ** 3

/**
 * Makes the disk of a new guest from the files of an imported container. A repeated call copies all files again, unless
 * the disk was complete already. If the step fails or is canceled, the sender of an archive gets the error.
 */
export async function importDisk(context: ImportContext, step: ImportStep): Promise<void> {
  const { imports, store, volumes } = context
  const { signal } = step
  const record = store.get(step.subject.id)
  if (await volumes.has(record.uuid)) return // an earlier run completed this step: `exchange` is its last part
  const id = step.input.importId!
  const stop = (): void => imports.fail(id, stopped())
  signal.addEventListener('abort', stop, { once: true })
  try {
    await makeDisk(context, step, record)
  } catch (error) {
    imports.fail(id, error)
    throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

async function makeDisk(context: ImportContext, step: ImportStep, record: GuestRecord): Promise<void> {
  const { imports, machines, volumes } = context
  const { input, signal } = step
  const { uuid } = record
  if (await volumes.discardNext(uuid)) await awaitSettled(context, uuid, signal)
  await volumes.prepare(uuid, { empty: true }, volumeLimitOf(machines, record))
  const volume = volumes.nextPathOf(uuid)
  const report: typeof step.report = (...progress) => step.report(...progress)
  const diskBytes = record.spec.limits.diskGb * gib
  const id = input.importId!
  await step.yieldWhile(imports.copy(id, volume, { report, signal, diskBytes })) // other operations may run meanwhile
  await imports.complete(id, async () => {
    await machines.driverOf(record).adopt(machines.of(record), {}, { volume, keepsIdentity: true })
    await volumes.exchange(uuid)
  })
}

/** Error for the sender of an archive if the task is canceled, or if the agent is stopped. */
function stopped() {
  const message = 'the import was canceled or its host was restarted, so its container was not created'
  return conflict('import_interrupted', message)
}
