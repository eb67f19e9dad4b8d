import { BerthError } from '../../../shared/errors.js'
import { keysOf, noPassword, parseCurrentLogin } from '../common/shadow-field.js'
import type { CurrentLogin } from '../machine.js'
import { readInstance } from './disk.js'
import { readDiskSystem } from './disk-system.js'
import type { RunPaths } from './paths.js'
import { objectOf } from './qmp/messages.js'
import { withGuestAgent, type GuestAgent } from './qmp/guest-agent.js'

const mostBytes = 65_536

/**
 * Reads root's login through the guest agent. If the agent does not answer, reads the login that Berth last wrote to
 * the volume. For a restored snapshot, this is the login from the time of the snapshot.
 * @returns undefined for Windows, or if the volume contains no login
 */
export async function readCurrentLogin(volume: string, run: RunPaths | undefined): Promise<CurrentLogin | undefined> {
  if ((await readDiskSystem(volume)).os === 'windows') return undefined
  return (run && (await askForLogin(run))) ?? (await readGivenLogin(volume))
}

async function readGivenLogin(volume: string): Promise<CurrentLogin | undefined> {
  const instance = await readInstance(volume)
  const passwordHash = instance.reset?.passwordHash ?? instance.passwordHash
  const authorizedKeys = keysOf(instance)
  if (passwordHash === undefined && authorizedKeys.length === 0) return undefined
  return { passwordHash: passwordHash ?? noPassword, authorizedKeys }
}

async function askForLogin(run: RunPaths): Promise<CurrentLogin | undefined> {
  try {
    return await withGuestAgent(run.agent, async (agent) => {
      const shadow = await readInside(agent, '/etc/shadow')
      const field = /^root:([^:\n]*):/m.exec(shadow)?.[1]
      if (field === undefined) return undefined
      const keys = await readInside(agent, '/root/.ssh/authorized_keys').catch(() => '')
      return parseCurrentLogin(field, keys)
    })
  } catch (error) {
    if (error instanceof BerthError) return undefined
    throw error
  }
}

/** Reads a file in the guest. If the guest agent refuses to read files, the error is the same as for a missing file. */
async function readInside(agent: GuestAgent, path: string): Promise<string> {
  const handle = await agent.ask('guest-file-open', { path, mode: 'r' })
  try {
    const read = objectOf(await agent.ask('guest-file-read', { handle, count: mostBytes }))
    const content = read?.['buf-b64']
    return typeof content === 'string' ? Buffer.from(content, 'base64').toString() : ''
  } finally {
    await agent.ask('guest-file-close', { handle }).catch(() => undefined)
  }
}
