import { securityUser } from '../../shared/abuse.js'
import type { Principal } from './principal.js'

/** Name that sub-users see instead of the names of administrators, API keys and other sub-users. */
export const hiddenActor = 'provider'

/** Name for changes that Berth makes by itself, such as a restart after a crash or an automatic move. */
export const systemActor = 'system'

/** Describes the field of an answer that contains a name from `shownActor`. */
export const actorDescription = `Sub-users see \`${hiddenActor}\` instead of the name of any other caller. \`${systemActor}\`: Berth itself.`

/** Returns the only name that a caller may see. `undefined`: the caller is not a sub-user and may see all names. */
export function ownNameOf({ subUser, user, viewed }: Pick<Principal, 'subUser' | 'user' | 'viewed'>) {
  return subUser && (viewed?.user ?? user)
}

/**
 * Returns the name of the caller that did something, or `hiddenActor` if the reader may not see this name.
 * @param name empty: the caller is not known
 * @param ownName result of `ownNameOf` for the reader
 */
export function shownActor(name: string, ownName: string | undefined): string {
  const isShown = ownName === undefined || ['', ownName, systemActor, securityUser].includes(name)
  return isShown ? name : hiddenActor
}
