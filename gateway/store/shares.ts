import type { Share } from './fair-cuts.js'
import type { Store } from './store.js'

export interface ShareNames {
  /** Redis key of the set of callers that have entries. A member is `Principal.root` and `Principal.ref` in JSON. */
  readonly callers: string
  /** Returns the Redis key of the sorted set with the entries of a caller. */
  readonly by: (ref: string) => string
}

/** Counts the entries of each caller. A caller without entries is removed from the set `callers`. */
export async function readShares(store: Store, step: string, { callers, by }: ShareNames): Promise<Share[]> {
  const members = await store.run(step, (client) => client.sMembers(callers))
  const owners = members.map((member) => JSON.parse(member) as [root: string, ref: string])
  const counts = await store.run(step, (client) => Promise.all(owners.map(([, ref]) => client.zCard(by(ref)))))
  const empty = owners.flatMap(([, ref], at) => (counts[at] === 0 ? [{ member: members[at]!, key: by(ref) }] : []))
  if (empty.length > 0) await removeEmpty(store, step, callers, empty)
  return owners.map(([root, ref], at) => ({ root, ref, count: counts[at] ?? 0 }))
}

/** Removes callers without entries from the set `callers`, unless they add an entry at the same time. */
async function removeEmpty(
  store: Store,
  step: string,
  callers: string,
  empty: readonly { member: string; key: string }[],
): Promise<void> {
  await store.transact(step, async (client) => {
    await client.watch(empty.map(({ key }) => key))
    const counts = await Promise.all(empty.map(({ key }) => client.zCard(key)))
    const gone = empty.flatMap(({ member }, at) => (counts[at] === 0 ? [member] : []))
    if (gone.length === 0) await client.unwatch()
    else await client.multi().sRem(callers, gone).exec()
  })
}
