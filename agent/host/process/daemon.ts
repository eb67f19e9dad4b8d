import { hostEnvironment, runPerl } from './process.js'

/**
 * Starts a program that outlives the agent, and returns once it is running.
 * @param errorFile receives its standard error; replaced at each start
 * @param env in addition to a PATH and the locale
 */
export async function startDaemonProgram(
  command: readonly string[],
  { errorFile, env }: { errorFile: string; env: Readonly<Record<string, string>> },
): Promise<void> {
  await runPerl('daemon', [errorFile, ...command], { survives: true, env: { ...hostEnvironment, ...env } })
}
