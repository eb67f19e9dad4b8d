import { realpath, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { withInterrupt } from '../consoles/interrupt.js'
import { runProgram } from '../consoles/program.js'
import { checkEnd, downloadCommand, uploadCommand } from '../copy/guest-commands.js'
import { packFiles } from '../copy/pack.js'
import { planCopy, splitRemote, type CopyPlan } from '../copy/plan-places.js'
import { checkDirectory } from '../copy/write-whole.js'
import { CopyProgress } from '../copy/progress.js'
import { Unpacker } from '../copy/unpack.js'
import { CliError, exitCodes, fileError, usageError } from '../errors.js'
import { readGuest } from '../names/guest.js'
import { printable } from '../output/width.js'
import { openSession, type GlobalOptions, type Session } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export interface CopyRun {
  readonly source: string
  readonly target: string
  readonly isRecursive: boolean
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** The plan of a copy, with the functions that both uploads and downloads need. */
interface Copy extends CopyPlan {
  readonly session: Session
  readonly uuid: string
  readonly isRecursive: boolean
  readonly progress: CopyProgress
  readonly signal: AbortSignal
  readonly onSkip: (message: string) => void
  /** Shows the error output of the commands in the guest. */
  readonly errors: (bytes: Buffer) => Promise<void>
}

/** Copies a file or a directory to or from a container. */
export async function runCopy({ source, target, isRecursive, options, surroundings }: CopyRun): Promise<void> {
  const plan = planCopy(source, target)
  const local = await (plan.direction === 'upload' ? checkSource(plan, isRecursive) : findTarget(plan))
  const session = await openSession(surroundings, options)
  const { uuid } = await readGuest(session, plan.guest)
  const progress = new CopyProgress(surroundings)
  let skipped = 0
  const report = (text: string): void => {
    progress.clear()
    surroundings.writeError(`${printable(text)}\n`)
  }
  const onSkip = (message: string): void => {
    skipped++
    report(`berth: skipped: ${message}`)
  }
  const errors = async (bytes: Buffer): Promise<void> => bytes.toString().trimEnd().split('\n').forEach(report)
  await withInterrupt(async (signal) => {
    const copy = { ...plan, local, session, uuid, isRecursive, progress, signal, onSkip, errors }
    try {
      await (plan.direction === 'upload' ? upload(copy) : download(copy))
    } finally {
      progress.end()
    }
  })
  if (skipped > 0) throw new CliError(exitCodes.failed, `${skipped} files were not copied`)
}

async function upload(copy: Copy): Promise<void> {
  const { local, remote, session, uuid, progress, signal, onSkip, errors } = copy
  let answer = (_isDirectory: boolean): void => undefined
  const isDirectory = new Promise<boolean>((done) => (answer = done))
  async function* archive(): AsyncIterable<Buffer> {
    const name = (await isDirectory) ? basename(resolve(local)) : splitRemote(remote).name
    for await (const chunk of packFiles({ source: await realpath(local), name, onSkip })) {
      progress.add(chunk.length)
      yield chunk
    }
  }
  const code = await runProgram(session, {
    guest: uuid,
    command: uploadCommand(remote),
    input: archive(),
    output: async (bytes) => answer(bytes.toString().startsWith('d')),
    errors,
    signal,
  })
  checkEnd(code, remote)
}

async function download(copy: Copy): Promise<void> {
  const { local, remote, isRecursive, session, uuid, progress, signal, errors } = copy
  const { name } = splitRemote(remote)
  const onSkip = (path: string, reason: string): void => copy.onSkip(`${path}: ${reason}`)
  const unpacker = new Unpacker({ name, isRecursive, target: local, onSkip })
  const code = await runProgram(session, {
    guest: uuid,
    command: downloadCommand(remote, isRecursive),
    input: nothing(),
    output: async (bytes) => {
      progress.add(bytes.length)
      await unpacker.write(bytes)
    },
    errors,
    signal,
  })
  // Waits until all received files are written, and only then reports that the guest's tar failed.
  const failure = await unpacker.end().then(
    () => undefined,
    (error: Error) => error,
  )
  checkEnd(code, remote)
  if (failure) throw failure
}

async function* nothing(): AsyncIterable<Buffer> {}

/** Checks the source of an upload, and returns its path. @throws {CliError} `usage` */
async function checkSource({ local }: CopyPlan, isRecursive: boolean): Promise<string> {
  const found = await findLocal(local)
  if (!found) throw usageError(`${local}: there is no such file or directory`)
  if (found.isDirectory() && !isRecursive) throw usageError(`${local} is a directory`, 'copy directories with -r')
  return local
}

/**
 * Returns the path of a downloaded copy: the path in `local` if this is a directory, otherwise `local` itself.
 * @throws {CliError} `usage` if it cannot be written
 */
async function findTarget({ local, remote }: CopyPlan): Promise<string> {
  const { name } = splitRemote(remote)
  const isInside = (await findLocal(local))?.isDirectory() ?? false
  await checkDirectory(isInside || local.endsWith('/') ? local : dirname(resolve(local)))
  return isInside ? join(local, name) : resolve(local)
}

async function findLocal(path: string) {
  try {
    return await stat(path)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw fileError(path, cause)
  }
}
