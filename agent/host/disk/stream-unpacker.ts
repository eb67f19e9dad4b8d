import { once } from 'node:events'
import { untilAborted } from '../../../shared/async/until-aborted.js'
import type { WaitBudget } from '../../../shared/async/wait-budget.js'
import { startPerl } from './copy-tree.js'

/** A program that unpacks an archive from its standard input. `ended` rejects with a CommandError if it fails. */
export interface StreamUnpacker {
  /** Resolves when the program can take more data, or has ended. */
  write(data: Buffer): Promise<void>
  /** Ends the standard input. */
  end(): void
  kill(): void
  readonly ended: Promise<unknown>
}

export interface UnpackerOrder {
  /** An empty directory. */
  readonly target: string
  /** First of 65,536 unused user ids of the host. */
  readonly hostIdBase: number
}

/** Starts a program that unpacks its standard input, in the sandbox of `unpack-tree`. */
export function startUnpacker({ target, hostIdBase }: UnpackerOrder, command: readonly string[]): StreamUnpacker {
  const { child, ended } = startPerl('unpack-tree', ['-', target, String(hostIdBase), ...command])
  const { stdin } = child
  const over = new AbortController()
  const stop = (): void => over.abort()
  ended.then(stop, stop)
  stdin.on('error', () => undefined) // the program has ended: `ended` has its result
  child.stdout.resume()
  return {
    ended,
    kill: () => void child.kill('SIGKILL'),
    end: () => void stdin.end(),
    write: async (data) => {
      if (over.signal.aborted || stdin.destroyed || stdin.write(data)) return
      await once(stdin, 'drain', { signal: over.signal }).catch(() => undefined) // removes its listeners
    },
  }
}

/**
 * Passes an archive to a program, and waits for its end. Data that follows the end of the archive is read and ignored.
 * Rejects as soon as the program fails.
 * @param budget limits the time for which the program is awaited; the wait for the archive does not count
 */
export async function feed(
  program: StreamUnpacker,
  head: Buffer,
  rest: Pick<AsyncIterator<Buffer>, 'next'>,
  budget: Pick<WaitBudget, 'wait'>,
): Promise<void> {
  const failed = new AbortController()
  program.ended.catch((error: unknown) => failed.abort(error))
  for (let data = head; ;) {
    await budget.wait(program.write(data))
    // A race with a promise that lives as long as the program would keep every part in memory.
    const next = await untilAborted(rest.next(), failed.signal)
    if (next.done) break
    data = next.value
  }
  program.end()
  await budget.wait(program.ended)
}
