import type { Ip } from '../../host/ip.js'

/**
 * Runs commands of several guests; one that fails does not keep the others from running.
 * @throws {CommandError} the first failure, at the end
 */
export async function runEach(ip: Ip, commands: readonly string[]): Promise<void> {
  const failures: unknown[] = []
  for (const command of commands) await ip.run([command]).catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw failures[0]
}
