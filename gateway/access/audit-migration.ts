import type { Store } from '../store/store.js'
import { steadyClock } from '../../shared/steady-clock.js'
import { timeOf, type AuditIndex, type AuditFields, type AuditTransaction } from './audit-index.js'

const atOnce = 500
/** Age in ms at which an outcome is deleted if its audit entry is still missing in the indexes. */
const orphanMs = 3_600_000

interface Message {
  readonly id: string
  readonly message: Readonly<Record<string, string>>
}

/**
 * Moves audit entries of earlier versions from streams into the indexes. Each part is moved in one transaction, so that
 * no entry is lost or duplicated if a gateway dies. An outcome without an entry is deleted after an hour.
 */
export async function moveStreams(store: Store, index: AuditIndex): Promise<void> {
  await moveStream(store, 'audit', async (entries) => ({
    moved: entries,
    move: (multi) => entries.forEach(({ id, fields }) => index.put(multi, id, fields)),
  }))
  for (const stream of ['audit-outcome', 'audit-late'])
    await moveStream(store, stream, (outcomes) => planOutcomes(index, outcomes))
}

interface Entry {
  readonly id: string
  readonly fields: AuditFields
}

/** `moved`: entries to delete from the stream. `move` adds them to the indexes, but skips outcomes without an entry. */
interface Move {
  readonly moved: readonly Entry[]
  readonly move: (multi: AuditTransaction) => void
}

async function planOutcomes(index: AuditIndex, outcomes: readonly Entry[]): Promise<Move> {
  const entryOf = ({ fields }: Entry): string => fields['of'] ?? ''
  const known = new Set((await index.read(outcomes.map(entryOf))).map(({ id }) => id))
  const found = outcomes.filter((outcome) => known.has(entryOf(outcome)))
  const isOrphan = ({ id }: Entry): boolean => timeOf(id) < steadyClock.earliest() - orphanMs
  return {
    moved: outcomes.filter((outcome) => known.has(entryOf(outcome)) || isOrphan(outcome)),
    move: (multi) => found.forEach((outcome) => index.putOutcome(multi, entryOf(outcome), outcome.fields)),
  }
}

async function moveStream(
  store: Store,
  name: string,
  plan: (entries: readonly Entry[]) => Promise<Move>,
): Promise<void> {
  const key = store.key(name)
  for (let from = '-'; ;) {
    const messages = await store.run('move audit entries to the new format', (client) =>
      client.xRange(key, from, '+', { COUNT: atOnce }),
    )
    const entries = (messages ?? []).map(decode)
    const last = entries.at(-1)
    if (last === undefined) return
    const { moved, move } = await plan(entries)
    if (moved.length > 0) await commit(store, key, { moved, move })
    from = `(${last.id}`
  }
}

async function commit(store: Store, key: string, { moved, move }: Move): Promise<void> {
  await store.run('move audit entries to the new format', async (client) => {
    const multi = client.multi()
    move(multi)
    multi.xDel(
      key,
      moved.map(({ id }) => id),
    )
    await multi.exec()
  })
}

function decode({ id, message }: Message): Entry {
  return { id, fields: JSON.parse(message['e'] ?? '{}') as AuditFields }
}
