import { hostEnvironment, runPerl } from './process.js'

/**
 * Starts a program that outlives the agent. Returns when it is running.
 * @param errorFile file that receives the standard error; each start replaces it
 * @param env environment, in addition to a PATH and the locale
 */
export async function startDaemonProgram(
  command: readonly string[],
  { errorFile, env }: { errorFile: string; env: Readonly<Record<string, string>> },
): Promise<void> {
  await runPerl('daemon', [errorFile, ...command], { survives: true, env: { ...hostEnvironment, ...env } })
}
