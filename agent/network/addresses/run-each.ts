import { readFlags } from '../../host/net/interfaces.js'
import { isGoneForIp, type Ip } from '../../host/net/ip.js'

/**
 * Runs commands for several guests; a failed command does not stop the others. A command is skipped without an error if
 * its interface was deleted meanwhile, or if the thing to remove no longer exists.
 * @throws {CommandError} the first failure, at the end
 */
export async function runEach(ip: Ip, commands: readonly string[]): Promise<void> {
  const failures: unknown[] = []
  for (const command of commands) await runUnlessGone(ip, command).catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw failures[0]
}

async function runUnlessGone(ip: Ip, command: string): Promise<void> {
  if (/^\w+ delete /.test(command)) return ip.remove([command])
  try {
    await ip.run([command])
  } catch (error) {
    if (!isGoneForIp(error)) throw error
    if (isMissing(command)) return
    await ip.close() // ip cached another interface of that name
    await ip.run([command]).catch((second: unknown) => {
      if (!isMissing(command)) throw second
    })
  }
}

/** True if the interface that a command names is missing. */
function isMissing(command: string): boolean {
  const device = / dev (\S+)/.exec(command)?.[1]
  return device !== undefined && readFlags(device) === undefined
}
