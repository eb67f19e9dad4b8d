import { BerthError, conflict } from '../../shared/errors.js'
import { checkCreationLimit, type CreationLimit, type CreationShare } from './creation-limits.js'
import {
  boundRootOf,
  chainOf,
  effectiveRights,
  maxChain,
  ownRights,
  rootKeyOf,
  type KeyChain,
  type KeyRecord,
} from './key-record.js'
import { findExcess, isAdministrator, isUnlimited, unlimited, type Dimension, type Rights } from './rights.js'
import { coversScope, defaultScopes } from './scopes.js'

/*
 * Decides who may create and change which keys. A key is always limited by the rights of its creator (see
 * effectiveRights). Therefore, no decision in this file can give a key more rights than its creator has.
 */

/** Used instead of the id of a calling key if the caller is a logged-in administrator. No key limits this caller. */
export const administratorId = 0

export type Keys = ReadonlyMap<number, KeyRecord>

/** Fields of a key in a request. Absent fields were not part of the request. */
export interface KeyFields {
  readonly name?: string | undefined
  readonly addresses?: readonly string[] | undefined
  readonly scopes?: readonly string[] | undefined
  readonly expiresAtMs?: number | undefined
  readonly disabled?: boolean | undefined
  readonly containerUuids?: readonly string[] | undefined
}

/** The key to change, the calling key, all keys, and the present time in ms since 1970. */
export interface Situation {
  readonly keys: Keys
  readonly callerId: number
  readonly target: KeyRecord
  readonly nowMs: number
}

type Grant = Pick<KeyRecord, 'addresses' | 'scopes' | 'expiresAtMs' | 'disabled' | 'containerUuids'>

export function rightsOf(keys: Keys, record: KeyRecord): Rights {
  return effectiveRights(chainOf(record, (id) => keys.get(id)))
}

/**
 * Plans a new key. Limits that the request omits are copied from the creator. If the request omits the scopes, the key
 * gets the default scopes, except those that the creator does not have.
 * @throws {BerthError} `insufficient_scope` if the request exceeds the rights of the creator
 */
export function planNewKey(fields: KeyFields, maker: Rights): Grant {
  const grant = {
    scopes: fields.scopes ?? defaultScopes.filter((scope) => coversScope(maker.scopes, scope)),
    addresses: fields.addresses ?? maker.addresses[0] ?? [],
    containerUuids: fields.containerUuids ?? (maker.containers === 'all' ? [] : maker.containers),
    expiresAtMs: fields.expiresAtMs ?? maker.expiresAtMs,
    disabled: fields.disabled ?? false,
  }
  // Only requested rights are checked. Allowed addresses that are copied from the creator's key need no check.
  const want = ownRights({ ...blank, ...grant })
  const limit = fields.addresses === undefined ? { ...maker, addresses: [] } : maker
  refuseExcess(findExcess(want, limit))
  return grant
}

const blank: KeyRecord = {
  id: 0,
  name: '',
  digest: '',
  prefix: '',
  addresses: [],
  scopes: [],
  expiresAtMs: 0,
  disabled: false,
  containerUuids: [],
  createdAtMs: 0,
  parentId: 0,
}

/** @throws {BerthError} `invalid_state` if the chain of creators has its maximum length */
export function checkChainLength(maker: KeyChain): void {
  if (maker.records.length >= maxChain)
    throw conflict(
      'invalid_state',
      `this key is already number ${maxChain} in a chain in which each key created the next one: create the new key with an earlier key of the chain`,
    )
}

/** Returns the quota towards which the keys of this creator count. Several creators can share a quota. */
function creationShareOf(keys: Keys, creatorId: number): CreationShare {
  const creator = keys.get(creatorId)
  if (creator === undefined) return { share: '', isBound: false }
  const chain = chainOf(creator, (id) => keys.get(id))
  const boundRoot = boundRootOf(chain)
  if (boundRoot !== undefined) return { share: boundRoot, isBound: true }
  const isLimited = !isUnlimited({ ...effectiveRights(chain), disabled: false })
  return { share: isLimited ? rootKeyOf(chain) : '', isBound: false }
}

/** Checks that the caller may create another key. @throws {BerthError} `key_limit_reached` */
export function checkKeyLimit(keys: Keys, callerId: number, limit: CreationLimit): void {
  const shares = new Map<number, string>()
  const shareOf = ({ parentId }: KeyRecord): string => {
    const share = shares.get(parentId) ?? creationShareOf(keys, parentId).share
    shares.set(parentId, share)
    return share
  }
  checkCreationLimit(creationShareOf(keys, callerId), [...keys.values()].map(shareOf), {
    code: 'key_limit_reached',
    name: 'API keys',
    setting: 'api_keys',
    limit,
  })
}

/** Rights of the caller. A deleted key has no rights. */
export function callerRights(keys: Keys, callerId: number): Rights {
  if (callerId === administratorId) return unlimited
  const caller = keys.get(callerId)
  return caller ? rightsOf(keys, caller) : { ...unlimited, disabled: true }
}

/**
 * True if the caller may see and change another key. The other key must not have more rights than the caller. A limited
 * caller may not change its own creators: the key that created the caller, and that key's creators.
 */
export function mayManage(keys: Keys, callerId: number, target: KeyRecord): boolean {
  if (callerId === administratorId) return true
  const caller = keys.get(callerId)
  if (!caller) return false
  const makers = chainOf(caller, (id) => keys.get(id)).records
  const rights = rightsOf(keys, caller)
  if (makers.some((maker) => maker.id === target.id) && !isUnlimited(rights)) return false
  return target.id !== callerId && findExcess(rightsOf(keys, target), rights) === undefined
}

/**
 * Plans the record after a change.
 * @throws {BerthError} `insufficient_scope` if the caller may not make this change, `invalid_state` if the key would
 * exceed its creator's rights or no administrator would be left
 */
export function planKeyChange(situation: Situation, fields: KeyFields): KeyRecord {
  const { keys, callerId, target, nowMs } = situation
  const changed = applyFields(target, fields)
  checkReach(keys, callerId, target)
  checkAdministratorLeft(keys, new Map(keys).set(target.id, changed), nowMs)
  checkOther(callerId, target)
  if (widens(changed, target)) checkWidening(keys, callerId, target, changed)
  return changed
}

function applyFields(record: KeyRecord, fields: KeyFields): KeyRecord {
  const sent = Object.entries(fields).filter(([, value]) => value !== undefined)
  return { ...record, ...(Object.fromEntries(sent) as Partial<KeyRecord>) }
}

function widens(changed: KeyRecord, before: KeyRecord): boolean {
  return (before.disabled && !changed.disabled) || findExcess(ownRights(changed), ownRights(before)) !== undefined
}

function checkWidening(keys: Keys, callerId: number, target: KeyRecord, changed: KeyRecord): void {
  const limit = callerRights(keys, callerId)
  refuseExcess(findExcess(ownRights(changed), limit))
  const makers = chainOf(target, (id) => keys.get(id)).records.slice(1)
  // A restricted key must not add rights to keys that it did not create, because these keys stay after its removal.
  if (!isUnlimited(limit) && !makers.some((maker) => maker.id === callerId))
    throw forbidden(
      'a limited key can extend only the rights of keys that it created itself, or that such a key created',
    )
  const maker = keys.get(target.parentId)
  const excess = maker && findExcess(ownRights(changed), rightsOf(keys, maker))
  if (maker && excess)
    throw conflict('invalid_state', `${excess}: exceeds the rights of key ${maker.id}, which created this key`)
}

/**
 * Plans the removal of a key. If the key is limited, the keys that it created are removed, too, so that nobody keeps
 * access through them. If the key is unlimited, these keys stay. The creator of the removed key becomes their creator.
 * @throws {BerthError} `insufficient_scope`, `invalid_state` as for a change
 */
export function planKeyRemoval(situation: Situation): { removed: KeyRecord[]; adopted: KeyRecord[] } {
  const { keys, callerId, target, nowMs } = situation
  const children = [...keys.values()].filter((key) => key.parentId === target.id)
  const passOn = isUnlimited(rightsOf(keys, target))
  const adopted = passOn ? children.map((key) => ({ ...key, parentId: target.parentId })) : []
  const removed = passOn ? [target] : [target, ...descendantsOf(keys, target)]
  const after = new Map(keys)
  for (const key of adopted) after.set(key.id, key)
  for (const key of removed) after.delete(key.id)
  checkReach(keys, callerId, target)
  checkAdministratorLeft(keys, after, nowMs)
  checkOther(callerId, target)
  return { removed, adopted }
}

function descendantsOf(keys: Keys, ancestor: KeyRecord): KeyRecord[] {
  return [...keys.values()].filter(
    (key) =>
      key.id !== ancestor.id && chainOf(key, (id) => keys.get(id)).records.some((maker) => maker.id === ancestor.id),
  )
}

/** Rejects a key that the caller may not manage. Call this first, because later checks reveal facts about the key. */
function checkReach(keys: Keys, callerId: number, target: KeyRecord): void {
  if (target.id !== callerId && !mayManage(keys, callerId, target))
    throw forbidden('the caller cannot change this key, which has rights that the caller does not have')
}

function checkOther(callerId: number, target: KeyRecord): void {
  if (target.id === callerId) throw forbidden('a key cannot change or delete itself')
}

/** Rejects a change that would remove the last administrator's key, or the last one that does not expire. */
function checkAdministratorLeft(before: Keys, after: Keys, nowMs: number): void {
  const count = (keys: Keys, lasting: boolean): number =>
    [...keys.values()].filter((key) => {
      const rights = rightsOf(keys, key)
      return isAdministrator(rights, nowMs) && (!lasting || rights.expiresAtMs === 0)
    }).length
  const lost = (lasting: boolean): boolean => count(before, lasting) > 0 && count(after, lasting) === 0
  if (lost(true) || lost(false))
    throw conflict(
      'invalid_state',
      'at least one usable key with the scope * on all containers must remain; a change of a key also affects the keys that it created',
    )
}

function refuseExcess(excess: Dimension | undefined): void {
  if (excess)
    throw new BerthError('forbidden', 'insufficient_scope', `${excess}: exceeds the rights of the caller`, {
      field: excess,
    })
}

function forbidden(message: string): BerthError {
  return new BerthError('forbidden', 'insufficient_scope', message)
}
