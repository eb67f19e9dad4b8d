import { objectOf } from './qmp/messages.js'

/** A CD's are of the host. */
const foreign = new Set(['iso9660', 'udf'])
/** More than any system mounts of its disk. */
const most = 256

/**
 * What a guest's file systems hold, by the answer of its agent to guest-get-fsinfo; each disk once, wherever it is mounted.
 * @returns undefined: it tells of none, or nonsense
 */
export function parseFileSystems(answer: unknown, mostBytes: number): number | undefined {
  if (!Array.isArray(answer) || answer.length > most) return undefined
  const used = new Map<string, number>()
  for (const entry of answer) {
    const { name, type, 'used-bytes': bytes } = objectOf(entry) ?? {}
    if (typeof name !== 'string' || typeof bytes !== 'number' || foreign.has(String(type))) continue
    used.set(name, bytes)
  }
  const sum = [...used.values()].reduce((all, bytes) => all + bytes, 0)
  return used.size > 0 && Number.isSafeInteger(sum) && sum >= 0 ? Math.min(sum, mostBytes) : undefined
}
