import type { QmpConnection } from './qmp/connection.js'
import { objectOf } from './qmp/messages.js'
import { parts } from './plan-command.js'

const timeoutMs = 500

/**
 * Reads the memory in use, in bytes, that the guest reports through its balloon driver.
 * @param bootedBytes memory that the guest was started with
 * @returns undefined if the guest has no balloon driver, or reports invalid numbers
 */
export async function readGuestMemory(monitor: QmpConnection, bootedBytes: number): Promise<number | undefined> {
  const path = `/machine/peripheral/${parts.balloon}`
  const ask = (command: string, args?: Readonly<Record<string, unknown>>): Promise<unknown> =>
    monitor.execute(command, args, timeoutMs).catch(() => undefined)
  const answer = await ask('qom-get', { path, property: 'guest-stats' })
  const actualBytes = objectOf(await ask('query-balloon'))?.['actual']
  return parseGuestMemory(objectOf(objectOf(answer)?.['stats']), { actualBytes, bootedBytes })
}

/** Calculates the memory in use. The balloon's memory is neither used by the guest nor available to it. */
export function parseGuestMemory(
  stats: Readonly<Record<string, unknown>> | undefined,
  { actualBytes, bootedBytes }: { readonly actualBytes: unknown; readonly bootedBytes: number },
): number | undefined {
  const [total, available] = [stats?.['stat-total-memory'], stats?.['stat-available-memory']]
  if (typeof total !== 'number' || typeof available !== 'number' || available < 0) return undefined
  if (total > bootedBytes || available > total) return undefined
  const held = typeof actualBytes === 'number' ? Math.max(0, bootedBytes - actualBytes) : 0
  // With deflate-on-oom, Linux counts the balloon's memory in the total. Other systems do not count this memory.
  const isInTotal = total + held > bootedBytes
  return Math.max(0, total - available - (isInTotal ? held : 0))
}
