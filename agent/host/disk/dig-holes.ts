import { run } from '../process/process.js'

/** Gives back the room of a file's zeros: it reads as before. Takes as long as reading it. @throws {CommandError} */
export async function digHoles(path: string, timeoutMs: number): Promise<void> {
  await run('fallocate', ['--dig-holes', path], { timeoutMs })
}
