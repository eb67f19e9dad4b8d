import type { Host, JoinToken } from '../../api/types.ts'

/** The steps of an installation, in order. In the first step, `command`, the command was not run on the host yet. */
export const installSteps = ['command', 'checking', 'installing', 'joining', 'waiting', 'online'] as const
export type InstallStep = (typeof installSteps)[number] | 'failed'

/** A command that installs a host, and the state of the host when the command was created. */
export type HostCommand = JoinToken & { readonly host: Host }

/** @param earlier the host when its command was created; an installation report from before this time is ignored */
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

/** True if the command of a host has expired before the host joined. */
export function hasExpiredCommand({ status, join_token_status: token }: Host): boolean {
  return status === 'pending' && token === 'expired'
}
