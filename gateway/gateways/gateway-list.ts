import { conflict, notFound } from '../../shared/errors.js'
import { tokenRefused } from '../join/signed-token.js'

/*
 * The list of all gateways that use the store, and pure functions that change it. The store contains the list as one
 * document.
 */

export interface GatewayRecord {
  readonly id: string
  /** Unique, without regard to case. "": the gateway gets the name of its server when it joins. */
  readonly name: string
  /** End of the invitation in ms since 1970. 0: the gateway has joined, or is the fleet's first gateway. */
  readonly invitedUntilMs: number
  /** Time of joining in ms since 1970. 0: the gateway has not joined yet. */
  readonly joinedAtMs: number
  /** SHA-256 of the public key with which the gateway joined. "": the gateway did not join with a token. */
  readonly keyDigest: string
  /** Version of the gateway at its last start. "" before the first start, when the next two fields are empty, too. */
  readonly version: string
  /** Address of the gateway's join endpoint, as host:port. */
  readonly joinAddress: string
  readonly startedAtMs: number
  /** X25519 key for which secrets are encrypted, as SubjectPublicKeyInfo (DER, base64url). Absent in old versions. */
  readonly publicKey?: string
}

export interface GatewayList {
  readonly gateways: readonly GatewayRecord[]
  /** Ids of gateways that were removed and must no longer serve requests. */
  readonly removed: readonly string[]
}

export const noGateways: GatewayList = { gateways: [], removed: [] }

/** Maximum number of ids in `removed`. The oldest ids are forgotten. */
const keptRemoved = 100
const mostGateways = 16

/** Adds a gateway that may join until `untilMs`. @throws {BerthError} `name_conflict`, `too_many_gateways` */
export function invite(list: GatewayList, invitation: { id: string; name: string; untilMs: number }): GatewayList {
  const { id, name, untilMs } = invitation
  if (list.gateways.some((gateway) => gateway.id === id)) return list // the request was repeated
  if (list.gateways.length >= mostGateways)
    throw conflict('too_many_gateways', `a fleet can have at most ${mostGateways} gateways: remove one first`)
  if (name !== '' && isTaken(list, name)) throw conflict('name_conflict', `name: another gateway is named ${name}`)
  const fields = { joinedAtMs: 0, keyDigest: '', version: '', joinAddress: '', startedAtMs: 0 }
  return { ...list, gateways: [...list.gateways, { id, name, invitedUntilMs: untilMs, ...fields }] }
}

/** Removes invitations that nobody used in time. */
export function dropExpired(list: GatewayList, nowMs: number): GatewayList {
  const gateways = list.gateways.filter(({ invitedUntilMs }) => invitedUntilMs === 0 || invitedUntilMs > nowMs)
  return { ...list, gateways }
}

/**
 * Records that an invited gateway has joined. Only the first key that uses an invitation may use it.
 * The server with this key may repeat its request, in case it did not receive the answer.
 * @param machine name of the server, used if the gateway has no name
 * @throws {BerthError} `join_token_invalid`
 */
export function admit(
  list: GatewayList,
  request: { id: string; keyDigest: string; machine: string; nowMs: number },
): GatewayList {
  const { id, keyDigest, machine, nowMs } = request
  const known = list.gateways.find((gateway) => gateway.id === id)
  if (!known) throw tokenRefused('the join token was withdrawn: create a new one')
  if (known.keyDigest === keyDigest) return list
  if (known.keyDigest !== '') throw tokenRefused('the join token was already used: create a new one')
  const name = known.name || freeGatewayName(list, machine)
  return replace(list, { ...known, name, keyDigest, invitedUntilMs: 0, joinedAtMs: nowMs })
}

/** Records the start of a gateway. Adds a missing gateway, for example at its first start. */
export function noteStart(
  list: GatewayList,
  own: Pick<GatewayRecord, 'id' | 'name' | 'version' | 'joinAddress' | 'startedAtMs' | 'publicKey'>,
): GatewayList {
  const known = list.gateways.find(({ id }) => id === own.id)
  if (known) return replace(list, { ...known, ...own, name: known.name || own.name })
  if (list.removed.includes(own.id)) return list
  const name = freeGatewayName(list, own.name)
  const added = { ...own, name, invitedUntilMs: 0, joinedAtMs: own.startedAtMs, keyDigest: '' }
  return { ...list, gateways: [...list.gateways, added] }
}

/** Removes a gateway or an invitation. @throws {BerthError} `not_found` */
export function remove(list: GatewayList, id: string): GatewayList {
  const known = list.gateways.find((gateway) => gateway.id === id)
  if (!known) throw notFound('gateway')
  const removed = known.joinedAtMs > 0 ? [...list.removed, id].slice(-keptRemoved) : list.removed
  return { gateways: list.gateways.filter((gateway) => gateway.id !== id), removed }
}

const isTaken = ({ gateways }: GatewayList, name: string): boolean =>
  gateways.some((gateway) => gateway.name.toLowerCase() === name.toLowerCase())

/** Returns the name, with a number appended if another gateway already has this name. */
function freeGatewayName(list: GatewayList, name: string): string {
  for (let n = 1; ; n++) {
    const candidate = n === 1 ? name : `${name}-${n}`
    if (!isTaken(list, candidate)) return candidate
  }
}

function replace(list: GatewayList, changed: GatewayRecord): GatewayList {
  return { ...list, gateways: list.gateways.map((gateway) => (gateway.id === changed.id ? changed : gateway)) }
}
