import type { Host, JoinToken } from '../../api/types.ts'

/** The steps until a host is ready, in order. `command`: the gateway waits for the command to be run on the host. */
export const installSteps = ['command', 'checking', 'installing', 'joining', 'waiting', 'online'] as const
export type InstallStep = (typeof installSteps)[number] | 'failed'

/** A command for a new host, and the host as it was when the command was created. */
export type HostCommand = JoinToken & { readonly host: Host }

/** @param earlier the host when its command was created: what was reported until then does not count */
export function installStepOf({ status, install }: Host, earlier?: Host): InstallStep {
  if (status === 'online') return 'online'
  if (install && JSON.stringify(install) !== JSON.stringify(earlier?.install)) return install.step
  const hasJoined = status === 'offline' && earlier?.status !== 'offline'
  return hasJoined ? 'waiting' : 'command'
}

/** True until the gateway has reached the agent for the first time. */
export function isBeingInstalled({ status, last_seen: lastSeen }: Host): boolean {
  return status !== 'online' && lastSeen === ''
}
