import { run } from '../process/process.js'

/**
 * Turns a file's blocks of zeros into holes; its content stays the same. Takes as long as reading it. @throws
 * {CommandError}
 */
export async function digHoles(path: string, timeoutMs: number): Promise<void> {
  await run('fallocate', ['--dig-holes', path], { timeoutMs })
}
