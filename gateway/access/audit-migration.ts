import type { Store } from '../store/store.js'
import type { AuditIndex, Fields, Multi } from './audit-index.js'

const atOnce = 500

interface Message {
  readonly id: string
  readonly message: Readonly<Record<string, string>>
}

/**
 * Moves entries that earlier versions wrote to streams into the indexes. Each part is moved in one transaction, so that
 * no entry is lost or duplicated if the gateway dies meanwhile.
 */
export async function moveStreams(store: Store, index: AuditIndex): Promise<void> {
  await moveStream(store, 'audit', (multi, { id, fields }) => index.put(multi, id, fields))
  for (const stream of ['audit-outcome', 'audit-late'])
    await moveStream(
      store,
      stream,
      (multi, { fields }, known) => {
        const id = fields['of'] ?? ''
        if (known.has(id)) index.putOutcome(multi, id, fields)
      },
      index,
    )
}

type Move = (multi: Multi, entry: { id: string; fields: Fields }, known: ReadonlySet<string>) => void

/** @param index must already contain the entries of the outcomes */
async function moveStream(store: Store, name: string, move: Move, index?: AuditIndex): Promise<void> {
  const key = store.key(name)
  for (;;) {
    const messages = await store.run('move audit entries', (client) =>
      client.xRange(key, '-', '+', { COUNT: atOnce }),
    )
    if (!messages || messages.length === 0) return
    const entries = messages.map(decode)
    const known = new Set(
      (await index?.read(entries.map(({ fields }) => fields['of'] ?? '')))?.map(({ id }) => id),
    )
    await store.run('move audit entries', async (client) => {
      const multi = client.multi()
      for (const entry of entries) move(multi, entry, known)
      multi.xDel(
        key,
        entries.map(({ id }) => id),
      )
      await multi.exec()
    })
  }
}

function decode({ id, message }: Message): { id: string; fields: Fields } {
  return { id, fields: JSON.parse(message['e'] ?? '{}') as Fields }
}
