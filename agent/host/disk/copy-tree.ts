import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { perlProgram } from '../process/perl-program.js'
import { CommandError, start } from '../process/process.js'
import { planArchive, planUntar, type ArchiveOptions } from './plan-tar.js'

/** User ids as they are stored on a disk (`first`), and as a container sees them (`shown`). */
export interface IdRange {
  readonly first: number
  readonly shown: number
  readonly count: number
}

export interface IdMap {
  readonly users: readonly IdRange[]
  readonly groups: readonly IdRange[]
}

export interface CopyOrder {
  /** Absolute path of the tree to copy. Other file systems that are mounted inside are left out. */
  readonly source: string
  /** Undefined: the stored ids are those that the container sees. */
  readonly ids?: IdMap | undefined
  /** An empty directory. */
  readonly target: string
  /** First of 65,536 unused user ids of the host. */
  readonly hostIdBase: number
}

export interface CopyResult {
  /** Number of device nodes outside /dev. They are left out, because only the host may create devices. */
  readonly devices: number
}

/** The attributes that a copy retains, in addition to ACLs. */
const attributes = ['security.capability', 'user.*'] as const

/** A program that writes an archive to its standard output. `ended` rejects with a CommandError if it fails. */
export interface TreeReader {
  readonly child: ReturnType<typeof start>
  readonly ended: Promise<unknown>
}

/**
 * Archives an untrusted root filesystem, whose stored user ids are those that the guest sees. Includes owners, modes,
 * ACLs, attributes and times, but not the content of /dev. Follows no links.
 */
export function archiveTree(tree: string, options: Omit<ArchiveOptions, 'attributes'>): TreeReader {
  const reader = startPerl('read-tree', [tree, '', '', ...planArchive({ attributes, ...options })])
  reader.child.stdin.end()
  return reader
}

/**
 * Copies an untrusted root filesystem with its owners, modes, ACLs, attributes and times. Converts the stored user ids.
 * Leaves out the content of /dev. Neither side follows links of the tree or changes anything outside `target`.
 * @param copied called with the number of bytes that were copied since the last call
 * @throws {CommandError} if a program fails; the signal's reason when aborted
 */
export async function copyTree(
  order: CopyOrder,
  copied: (bytes: number) => void,
  signal: AbortSignal,
): Promise<CopyResult> {
  const { source, ids, target, hostIdBase } = order
  const reader = startPerl('read-tree', [source, text(ids?.users), text(ids?.groups), ...planArchive({ attributes })])
  const writer = startPerl('unpack-tree', ['-', target, String(hostIdBase), ...planUntar({ attributes })])
  reader.child.stdin.end()
  writer.child.stdout.resume()
  const counted = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      copied(chunk.length)
      done(null, chunk)
    },
  })
  const piped = pipeline(reader.child.stdout, counted, writer.child.stdin, { signal })
  try {
    const [reading, writing] = await Promise.allSettled([reader.ended, writer.ended, piped])
    signal.throwIfAborted()
    if (writing.status === 'rejected') throw writing.reason // a failed writer also ends the reader
    if (reading.status === 'rejected') throw reading.reason
    return { devices: writing.value.devices }
  } finally {
    for (const { child } of [reader, writer]) child.kill('SIGKILL')
  }
}

function text(ranges: readonly IdRange[] = []): string {
  return ranges.map(({ first, shown, count }) => `${first} ${shown} ${count}`).join(',')
}

/** Starts a Perl program that works on a tree. Its only allowed errors are refused device nodes. */
export function startPerl(name: string, args: readonly string[]) {
  const child = start('perl', [perlProgram(name), ...args])
  return { child, ended: endOf(name, child) }
}

/** Maximum number of characters of error output that are stored. */
const maxErrorChars = 4096
const refusedDevice = /: Cannot mknod: Operation not permitted$/
const tarSummary = /^tar: Exiting with failure status due to previous errors$/

/** Resolves when the program has ended. Rejects after any error except refused device nodes. */
function endOf(name: string, child: ReturnType<typeof start>): Promise<CopyResult> {
  let [devices, stderr, rest] = [0, '', '']
  const note = (line: string): void => {
    if (refusedDevice.test(line)) devices++
    else if (line !== '' && !tarSummary.test(line)) stderr = `${stderr}${line}\n`.slice(-maxErrorChars)
  }
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = (lines.pop() ?? '').slice(-maxErrorChars)
    lines.forEach(note)
  })
  const ended = new Promise<CopyResult>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => {
      note(rest)
      if (code === 0 || (code === 2 && devices > 0 && stderr === '')) return resolve({ devices })
      reject(new CommandError(name, code, stderr, signal ? `killed by signal ${signal}` : `exit code ${code}`))
    })
  })
  ended.catch(() => undefined) // prevents an unhandled rejection while the other program is awaited first
  return ended
}
