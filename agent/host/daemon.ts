import { readPerlProgram } from './perl-program.js'
import { hostEnvironment, runPerl } from './process.js'

const program = readPerlProgram('daemon')

/**
 * Starts a program that outlives the agent, and returns once it is there.
 * @param errorFile gets what it writes to standard error; replaced at each start
 * @param env in addition to a PATH and the locale
 */
export async function startDaemonProgram(
  command: readonly string[],
  { errorFile, env }: { errorFile: string; env: Readonly<Record<string, string>> },
): Promise<void> {
  await runPerl(program, [errorFile, ...command], { survives: true, env: { ...hostEnvironment, ...env } })
}
