import { readFlags } from '../../host/net/interfaces.js'
import { isGoneForIp, type Ip } from '../../host/net/ip.js'

/**
 * Runs all commands, even if one of them fails. Ignores failures if the interface of a command has been deleted, or if
 * the command removes something that does not exist.
 * @throws {CommandError} the first failure, after all commands have run
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
    await ip.close() // ip may have cached a deleted interface of that name; a new ip process reads it again
    await ip.run([command]).catch((second: unknown) => {
      if (!isMissing(command)) throw second
    })
  }
}

/** True if the command names an interface that does not exist. */
function isMissing(command: string): boolean {
  const device = / dev (\S+)/.exec(command)?.[1]
  return device !== undefined && readFlags(device) === undefined
}
