import { timed } from './figures.js'

/** A system that starts guests one by one: either the raw tools or LXD. */
export interface Starter {
  create(name: string): Promise<void>
  start(name: string): Promise<void>
  kill(name: string): Promise<void>
  delete(name: string): Promise<void>
}

/**
 * Creates and starts guests concurrently, then removes them.
 * @param atOnce maximum number of guests in progress; on two cores, values above 16 (LXD) or 4 (raw tools) are slower
 * @returns seconds until all guests that can run are running, and the number of guests that failed
 */
export async function startCrowd(
  starter: Starter,
  names: readonly string[],
  atOnce: number,
): Promise<{ seconds: number; failed: number }> {
  const queue = [...names]
  let failed = 0
  const worker = async (): Promise<void> => {
    for (let name = queue.shift(); name !== undefined; name = queue.shift())
      await createAndStart(starter, name).catch(() => (failed += 1))
  }
  const taken = await timed(() => Promise.all(Array.from({ length: atOnce }, worker)))
  for (const name of names) {
    await starter.kill(name).catch(() => undefined)
    await starter.delete(name).catch(() => undefined)
  }
  return { seconds: taken / 1000, failed }
}

async function createAndStart(starter: Starter, name: string): Promise<void> {
  await starter.create(name)
  await starter.start(name)
}
