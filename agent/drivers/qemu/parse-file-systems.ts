import { objectOf } from './qmp/messages.js'

/** Types of file systems on CDs. They are not counted, because the CDs belong to the host. */
const foreign = new Set(['iso9660', 'udf'])
/** Maximum number of file systems in an answer, more than any system mounts. */
const most = 256

/**
 * Adds up the bytes in use on a guest's file systems, from its agent's answer to guest-get-fsinfo. A disk that is
 * mounted several times counts once.
 * @returns undefined if the answer is invalid or lists no file system
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
