import { spawn } from 'node:child_process'
import { fstatSync } from 'node:fs'

/** Detects when the program at the other end of the pipe has ended. */
export interface ReaderWatch {
  /** Resolves when the reader has ended. Never resolves if the output is not a pipe, or without GNU `tail`. */
  readonly gone: Promise<void>
  release(): void
}

/**
 * Begins to watch the reader. Node.js notices only at the next output that a pipe has lost its reader. GNU `tail -f`
 * detects this immediately, and ends with SIGPIPE.
 */
export function watchReader(): ReaderWatch {
  if (!fstatSync(1).isFIFO()) return { gone: new Promise(() => undefined), release: () => undefined }
  const tail = spawn('tail', ['-f', `--pid=${process.pid}`, '/dev/null'], { stdio: ['ignore', 'inherit', 'ignore'] })
  const gone = new Promise<void>((resolve) => {
    tail.once('exit', (_, signal) => {
      if (signal === 'SIGPIPE') resolve()
    })
  })
  tail.once('error', () => undefined) // it is not installed
  return { gone, release: () => void tail.kill() }
}
