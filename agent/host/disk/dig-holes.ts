import { run } from '../process/process.js'

/**
 * Replaces blocks of zeros in a file by holes. The content does not change. Takes as long as reading the file.
 * @throws {CommandError}
 */
export async function digHoles(path: string, timeoutMs: number): Promise<void> {
  await run('fallocate', ['--dig-holes', path], { timeoutMs })
}
