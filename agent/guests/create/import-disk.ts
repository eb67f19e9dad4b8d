import type { StepContext } from '../../operations/types.js'
import type { GuestContext } from '../context.js'
import { awaitSettled } from '../snapshots/snapshot-space.js'
import { volumeLimitOf } from '../snapshots/volume-bound.js'

const gib = 1024 ** 3

/**
 * Makes the disk of a new guest from the files of an imported container. A repeated call copies all files again, unless
 * the disk was complete already.
 */
export async function importDisk(
  context: Pick<GuestContext, 'imports' | 'machines' | 'store' | 'volumes'>,
  step: StepContext<{ readonly importId?: string }>,
): Promise<void> {
  const { imports, machines, store, volumes } = context
  const { subject, input, signal } = step
  const record = store.get(subject.id)
  const { uuid } = record
  if (await volumes.has(uuid)) return // an earlier run completed this step: `exchange` is its last part
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
