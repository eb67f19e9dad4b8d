/*
 * Recognizes damage by a power cut in Redis' append-only files. With `appendfsync always`, only the end of the last
 * file can be incomplete. This end contains commands that Redis had not acknowledged.
 */

/**
 * True if a power cut explains the bytes after the last complete command. These bytes must be the beginning of
 * further commands. Zeros can follow, because file systems leave zeros in place of data that was not written.
 * @param tail bytes from the first byte that redis-check-aof rejects
 */
export function isTornTail(tail: Buffer): boolean {
  return isBeginning(tail.subarray(0, lengthWithoutZeros(tail)))
}

function lengthWithoutZeros(bytes: Buffer): number {
  let length = bytes.length
  while (length > 0 && bytes[length - 1] === 0) length--
  return length
}

/** True if the bytes are commands, of which only the last can be incomplete. Source: RESP2 arrays */
function isBeginning(bytes: Buffer): boolean {
  for (let at = 0; at < bytes.length;) {
    const next = skipCommand(bytes, at)
    if (next === 'invalid') return false
    if (next === 'incomplete') return true
    at = next
  }
  return true
}

type Next = number | 'incomplete' | 'invalid'

function skipCommand(bytes: Buffer, start: number): Next {
  const head = readNumber(bytes, start, '*')
  if (typeof head === 'string') return head
  let at: Next = head.end
  for (let left = head.value; left > 0 && typeof at === 'number'; left--) at = skipArgument(bytes, at)
  return at
}

function skipArgument(bytes: Buffer, start: number): Next {
  const head = readNumber(bytes, start, '$')
  if (typeof head === 'string') return head
  const end = head.end + head.value
  const lineEnd = bytes.toString('latin1', end, end + 2)
  if (!'\r\n'.startsWith(lineEnd)) return 'invalid'
  return lineEnd.length < 2 ? 'incomplete' : end + 2
}

/** Maximum length of a line with a number: sign, eleven digits, CR and LF. */
const maxLine = 14

function readNumber(
  bytes: Buffer,
  start: number,
  sign: '*' | '$',
): { value: number; end: number } | 'incomplete' | 'invalid' {
  const line = bytes.toString('latin1', start, start + maxLine)
  const complete = /^.(\d{1,11})\r\n/.exec(line)
  if (line !== '' && !line.startsWith(sign)) return 'invalid'
  if (complete) return { value: Number(complete[1]), end: start + complete[0].length }
  return /^(.\d{0,11}\r?)?$/.test(line) && start + line.length === bytes.length ? 'incomplete' : 'invalid'
}

/** A line of the manifest, which describes a file. Source: redis 7.0, aof.c */
export interface AofFile {
  readonly name: string
  readonly sequence: number
  /** Type of the file. `b`: base, `h`: history (to be deleted), `i`: increment. */
  readonly type: 'b' | 'h' | 'i'
}

/** @returns undefined if the text is not a complete manifest */
export function parseManifest(text: string): AofFile[] | undefined {
  const lines = text.split('\n')
  if (lines.pop() !== '') return undefined
  const files = lines.map((line) => /^file (\S+) seq (\d+) type ([bhi])$/.exec(line))
  if (files.some((file) => file === null)) return undefined
  const parsed = files.map((file) => ({
    name: file![1]!,
    sequence: Number(file![2]),
    type: file![3] as AofFile['type'],
  }))
  return parsed.filter(({ type }) => type === 'b').length <= 1 && parsed.some(({ type }) => type === 'i')
    ? parsed
    : undefined
}

/**
 * Creates a manifest for the files in the directory. Omits increments that are older than the base file and thus
 * contained in it. Redis would otherwise execute their commands twice, for example INCR.
 * @returns undefined if it is ambiguous which files belong together
 */
export function rebuildManifest(names: readonly string[]): string | undefined {
  const files = names.flatMap((name): AofFile[] => {
    const [, sequence, kind] = /^appendonly\.aof\.(\d+)\.(base|incr)\.(?:rdb|aof)$/.exec(name) ?? []
    return kind ? [{ name, sequence: Number(sequence), type: kind === 'base' ? 'b' : 'i' }] : []
  })
  const [base, ...otherBases] = files.filter(({ type }) => type === 'b')
  if (!base || otherBases.length > 0) return undefined
  const increments = incrementsOf(
    base,
    files.filter(({ type }) => type === 'i'),
  )
  const lineOf = ({ name, sequence, type }: AofFile): string => `file ${name} seq ${sequence} type ${type}\n`
  return increments && [base, ...increments].map(lineOf).join('')
}

/**
 * Finds the increments that belong to a base file. Redis opens an increment before it writes a base. If this write
 * fails, Redis opens another increment. An increment can therefore be older than the base although the increment's
 * number is the same or higher. Source: redis 7.0, aof.c
 * @returns undefined if some of the found increments are possibly older than the base
 */
function incrementsOf(base: AofFile, all: readonly AofFile[]): AofFile[] | undefined {
  const later = all.filter(({ sequence }) => sequence >= base.sequence).toSorted((a, b) => a.sequence - b.sequence)
  const isComplete = base.sequence === 1 ? later.every(({ sequence }, at) => sequence === at + 1) : later.length === 1
  return isComplete && later.length > 0 ? later : undefined
}
