import { expect } from 'chai'
import fc from 'fast-check'
import { change, keysOf, record, removal } from '../../test/support/gateway/key-records.js'
import type { KeyRecord } from './key-record.js'
import { planNewKey, rightsOf, type KeyFields, type Keys } from './plan-keys.js'
import { isUnlimited } from './rights.js'

/* The test's own model of rights: it judges whether a single request is allowed. */

interface Request {
  scope: string
  container: string
  address: string
  atMs: number
}
const requests: Request[] = ['container:read', 'container:power', 'apikey:create', 'audit:read'].flatMap((scope) =>
  ['u1', 'u2', 'u3'].flatMap((container) =>
    ['10.0.0.1', '10.0.1.1', '192.0.2.1'].flatMap((address) =>
      [1500, 2500, 1e9].map((atMs) => ({ scope, container, address, atMs })),
    ),
  ),
)

function allows(keys: Keys, key: KeyRecord, request: Request): boolean {
  const [area] = request.scope.split(':')
  const own =
    !key.disabled &&
    key.scopes.some((scope) => ['*', `${area}:*`, request.scope].includes(scope)) &&
    (key.containerUuids.length === 0 || key.containerUuids.includes(request.container)) &&
    (key.addresses.length === 0 || key.addresses.some((entry) => inList(entry, request.address))) &&
    (key.expiresAtMs === 0 || request.atMs < key.expiresAtMs)
  if (!own || key.parentId === 0) return own
  const parent = keys.get(key.parentId)
  return parent !== undefined && allows(keys, parent, request)
}

/** Supports only /24 networks and single addresses, because these tests use no others. */
function inList(entry: string, address: string): boolean {
  return entry.endsWith('/24') ? address.startsWith(entry.replace('0/24', '')) : entry === address
}

const fieldsArbitrary = fc.record(
  {
    scopes: fc.uniqueArray(
      fc.constantFrom('*', 'container:*', 'container:read', 'apikey:*', 'apikey:create', 'audit:read'),
      {
        maxLength: 3,
      },
    ),
    containerUuids: fc.uniqueArray(fc.constantFrom('u1', 'u2', 'u3'), { maxLength: 2 }),
    addresses: fc.uniqueArray(fc.constantFrom('10.0.0.0/24', '10.0.0.1', '192.0.2.1'), { maxLength: 2 }),
    expiresAtMs: fc.constantFrom(0, 2000, 3000),
    disabled: fc.boolean(),
  },
  { requiredKeys: [] },
)
const stepArbitrary = fc.record({
  by: fc.nat(12),
  on: fc.nat(12),
  act: fc.constantFrom('create', 'change', 'remove', 'revoke', 'narrow'),
  fields: fieldsArbitrary,
})
type Step = { by: number; on: number; act: string; fields: KeyFields }

/** Creates, changes or removes a key for a caller. A rejected request changes nothing. */
function perform(keys: Map<number, KeyRecord>, step: Step, callerId: number, newId: number): void {
  const caller = keys.get(callerId)
  const target = keys.get(step.on + 1)
  if (!caller) return
  try {
    if (step.act === 'create')
      keys.set(newId, record(newId, { ...planNewKey(step.fields, rightsOf(keys, caller)), parentId: callerId }))
    else if (step.act === 'change' && target) keys.set(target.id, change(keys, callerId, target.id, step.fields))
    else if (step.act === 'remove' && target) removeKey(keys, callerId, target.id)
  } catch (error) {
    expect(error).to.have.property('code').that.is.oneOf(['insufficient_scope', 'invalid_state'])
  }
}

function removeKey(keys: Map<number, KeyRecord>, callerId: number, id: number): void {
  const { removed, adopted } = removal(keys, callerId, id)
  for (const key of adopted) keys.set(key.id, key)
  for (const key of removed) keys.delete(key.id)
}

describe('any sequence of changes of API keys', () => {
  it('leaves every key within the rights of its creator', () => {
    fc.assert(
      fc.property(fc.array(stepArbitrary, { maxLength: 25 }), (steps) => {
        const keys = keysOf(record(1), record(2))
        steps.forEach((step, i) => {
          const ids = [...keys.keys()]
          perform(keys, step, ids[step.by % ids.length]!, i + 3)
          for (const key of keys.values())
            for (const request of requests)
              if (key.parentId !== 0 && allows(keys, key, request))
                expect(allows(keys, keys.get(key.parentId)!, request), JSON.stringify({ key, request })).to.equal(true)
        })
      }),
      { numRuns: 300 },
    )
  })

  it('can never increase the combined rights of all keys with restricted rights', () => {
    fc.assert(
      fc.property(
        fc.array(fieldsArbitrary, { minLength: 2, maxLength: 4 }),
        fc.array(stepArbitrary, { maxLength: 20 }),
        (members, steps) => {
          const start = keysOf(record(1), ...members.map((fields, i) => record(i + 2, defined(fields))))
          if ([...start.values()].some((key) => key.id > 1 && isUnlimited(rightsOf(start, key)))) return
          const held = new Set([...start.keys()].filter((id) => id > 1))
          const [real, quiet] = [new Map(start), new Map(start)]
          steps.forEach((step, i) => {
            const newId = i + 20
            if (step.act === 'revoke' || step.act === 'narrow') administerBoth([real, quiet], step, members.length)
            else {
              const ids = [...held]
              perform(real, step, ids[step.by % ids.length]!, newId)
              if (real.has(newId)) held.add(newId)
            }
            for (const request of requests) {
              const power = (keys: Keys) =>
                [...keys.values()].some((key) => held.has(key.id) && allows(keys, key, request))
              if (power(real)) expect(power(quiet), JSON.stringify({ steps, request })).to.equal(true)
            }
          })
        },
      ),
      { numRuns: 400 },
    )
  })
})

/** Makes the administrator's change in both sets of keys, or in neither if one of them rejects it. */
function administerBoth(both: readonly Map<number, KeyRecord>[], step: Step, members: number): void {
  const changed = both.map((keys) => new Map(keys))
  try {
    for (const keys of changed) administer(keys, step, members)
  } catch (error) {
    expect(error).to.have.property('code').that.is.oneOf(['insufficient_scope', 'invalid_state'])
    return
  }
  both.forEach((keys, i) => {
    keys.clear()
    for (const [id, key] of changed[i]!) keys.set(id, key)
  })
}

/** As the administrator, limits, disables or removes one of the first `members` keys. */
function administer(keys: Map<number, KeyRecord>, step: Step, members: number): void {
  const target = keys.get(2 + (step.on % members))
  if (!target) return
  if (step.act === 'narrow') keys.set(target.id, { ...target, scopes: ['audit:read'], containerUuids: ['u1'] })
  else if (step.by % 2 === 0) keys.set(target.id, { ...target, disabled: true })
  else removeKey(keys, 1, target.id)
}

function defined(fields: KeyFields): Partial<KeyRecord> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
