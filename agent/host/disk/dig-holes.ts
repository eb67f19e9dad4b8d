import { run } from '../process/process.js'

/**
 * Replaces a file's blocks of zeros by holes, which does not change its content. Takes as long as reading the file.
 * @throws {CommandError}
 */
export async function digHoles(path: string, timeoutMs: number): Promise<void> {
  await run('fallocate', ['--dig-holes', path], { timeoutMs })
}
