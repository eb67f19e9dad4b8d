import { expect } from 'chai'
import fc from 'fast-check'
import type { KeyRecord } from './key-record.js'
import {
  checkKeyLimit,
  mayManage,
  planKeyChange,
  planNewKey,
  planKeyRemoval,
  rightsOf,
  type KeyFields,
  type Keys,
} from './plan-keys.js'
import { isUnlimited } from './rights.js'

const nowMs = 1000
const record = (id: number, fields: Partial<KeyRecord> = {}): KeyRecord => ({
  id,
  name: `key ${id}`,
  digest: '',
  prefix: '',
  addresses: [],
  scopes: ['*'],
  expiresAtMs: 0,
  disabled: false,
  containerUuids: [],
  createdAtMs: 0,
  parentId: 0,
  ...fields,
})
const keysOf = (...records: KeyRecord[]): Map<number, KeyRecord> => new Map(records.map((key) => [key.id, key]))
const change = (keys: Keys, callerId: number, id: number, fields: KeyFields) =>
  planKeyChange({ keys, callerId, target: keys.get(id)!, nowMs }, fields)
const removal = (keys: Keys, callerId: number, id: number) =>
  planKeyRemoval({ keys, callerId, target: keys.get(id)!, nowMs })

describe('creating a key', () => {
  const limited = record(2, {
    scopes: ['container:*', 'apikey:create'],
    containerUuids: ['u1', 'u2'],
    addresses: ['10.0.0.0/24'],
    expiresAtMs: 5000,
  })
  const make = (fields: KeyFields) => planNewKey(fields, rightsOf(keysOf(limited), limited))

  it('copies missing limits from the creator, and gives the key only those default scopes that the creator has', () =>
    expect(make({})).to.deep.equal({
      scopes: ['container:read'],
      addresses: ['10.0.0.0/24'],
      containerUuids: ['u1', 'u2'],
      expiresAtMs: 5000,
      disabled: false,
    }))

  for (const [name, field, fields] of [
    ['the scope * if the creator has only some scopes', 'scopes', { scopes: ['*'] }],
    ['a scope that the creator does not have', 'scopes', { scopes: ['container:read', 'apikey:read'] }],
    ['the scope apikey:* if the creator has only apikey:create', 'scopes', { scopes: ['apikey:*'] }],
    ['access to all containers if the creator is bound to two containers', 'container_uuids', { containerUuids: [] }],
    ['access to a container to which the creator has no access', 'container_uuids', { containerUuids: ['u1', 'u3'] }],
    ['requests from all addresses if the creator is restricted to a network', 'ip_whitelist', { addresses: [] }],
    ['a larger network than the network of the creator', 'ip_whitelist', { addresses: ['10.0.0.0/23'] }],
    ['a key without an expiry if the creator has an expiry', 'expires_at', { expiresAtMs: 0 }],
    ['a key that expires after its creator', 'expires_at', { expiresAtMs: 5001 }],
  ] as const)
    it(`rejects ${name}`, () =>
      expect(() => make({ scopes: ['container:read'], ...fields }))
        .to.throw()
        .with.property('field', field))

  it('accepts rights within the rights of the creator', () =>
    expect(
      make({
        scopes: ['container:power'],
        containerUuids: ['u1'],
        addresses: ['10.0.0.7'],
        expiresAtMs: 4000,
      }),
    )
      .to.include({ expiresAtMs: 4000 })
      .and.to.deep.include({ containerUuids: ['u1'], addresses: ['10.0.0.7'] }))
})

describe('changing a key', () => {
  it('is rejected if a key tries to change itself, or if a key with restricted rights tries to change its creator', () => {
    const keys = keysOf(
      record(1),
      record(2, { scopes: ['apikey:*'] }),
      record(3, { scopes: ['apikey:*'], parentId: 2 }),
    )
    for (const [caller, target] of [
      [1, 1],
      [2, 2],
      [3, 2],
    ] as const) {
      expect(mayManage(keys, caller, keys.get(target)!)).to.equal(false)
      expect(() => change(keys, caller, target, { name: 'x' }))
        .to.throw()
        .with.property('code', 'insufficient_scope')
    }
  })

  it('can add only rights that the caller has; a caller with restricted rights can add them only to keys that it created', () => {
    const keys = keysOf(
      record(1),
      record(2, { scopes: ['container:*', 'apikey:update'] }),
      record(3, { scopes: ['container:read'], parentId: 2 }),
      record(4, { scopes: ['container:read'], disabled: true }),
    )
    expect(change(keys, 2, 3, { scopes: ['container:power'] }).scopes).to.deep.equal(['container:power'])
    expect(change(keys, 2, 4, { name: 'renamed' }).name).to.equal('renamed')
    expect(() => change(keys, 2, 3, { scopes: ['*'] })).to.throw('exceeds the rights')
    expect(() => change(keys, 2, 4, { disabled: false })).to.throw('only the rights of keys that it created')
    expect(() => change(keys, 2, 1, { name: 'x' })).to.throw('has rights that the caller does not have')
    expect(change(keys, 1, 4, { disabled: false }).disabled).to.equal(false)
  })

  it('is rejected if the key would get rights that its creator does not have', () => {
    const keys = keysOf(record(1), record(2, { scopes: ['apikey:*'] }), record(3, { scopes: [], parentId: 2 }))
    expect(() => change(keys, 1, 3, { scopes: ['swap:read'] })).to.throw('key 2, which created this key')
  })

  it('is rejected if no usable key with unlimited rights would be left, and so is deleting a key', () => {
    const code = (act: () => unknown) => expect(act).to.throw().with.property('code', 'invalid_state')
    const alone = keysOf(record(1), record(2, { scopes: ['container:read'] }))
    code(() => removal(alone, 1, 1))
    for (const fields of [
      { disabled: true },
      { scopes: ['container:*'] },
      { expiresAtMs: 9999 },
      { containerUuids: ['u'] },
    ])
      code(() => change(alone, 1, 1, fields))
    const temporary = keysOf(record(1), record(2, { expiresAtMs: 9999 }))
    expect(() => removal(temporary, 2, 1), 'rejects a key beyond the scopes of the caller')
      .to.throw()
      .with.property('code', 'insufficient_scope')
    const made = keysOf(record(1), record(2, { parentId: 1 }))
    code(() => change(made, 2, 1, { disabled: true }))
    expect(removal(keysOf(record(1), record(2)), 2, 1).removed).to.have.length(1)
  })
})

describe('deleting a key', () => {
  it('also deletes all keys that a limited key created, directly or indirectly', () => {
    const keys = keysOf(
      record(1),
      record(2, { scopes: ['apikey:*'] }),
      record(3, { scopes: ['apikey:*'], parentId: 2 }),
      record(4, { scopes: ['apikey:read'], parentId: 3 }),
    )
    expect(removal(keys, 1, 2).removed.map((key) => key.id)).to.deep.equal([2, 3, 4])
  })

  it('keeps the keys that a deleted unlimited key created, and assigns them to the creator of the deleted key', () => {
    const keys = keysOf(record(1), record(2, { parentId: 1 }), record(3, { parentId: 2, scopes: ['swap:read'] }))
    const { removed, adopted } = removal(keys, 1, 2)
    expect(removed.map((key) => key.id)).to.deep.equal([2])
    expect(adopted).to.deep.equal([record(3, { parentId: 1, scopes: ['swap:read'] })])
  })
})

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

describe('any sequence of changes of keys', () => {
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

  it('never increases the combined rights of all keys with restricted rights', () => {
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

describe('the limit on the number of keys that a caller may create', () => {
  const billing = record(2, { scopes: ['container:*', 'apikey:*', 'subuser:*'], parentId: 1 })
  const customer = record(3, { scopes: billing.scopes, containerUuids: ['u1'], parentId: 2 })
  const child = record(4, { scopes: billing.scopes, containerUuids: ['u1'], parentId: 3 })
  const limit = { bound: 10, others: 100 }
  const createdBy = (parentId: number, count: number): KeyRecord[] =>
    Array.from({ length: count }, (_, n) =>
      record(parentId * 1000 + n, { ...billing, id: parentId * 1000 + n, parentId }),
    )
  const code = (callerId: number, created: KeyRecord[]): string => {
    try {
      checkKeyLimit(keysOf(record(1), billing, customer, child, ...created), callerId, limit)
      return ''
    } catch (error) {
      return (error as { code: string }).code
    }
  }

  const full = 'key_limit_reached'
  for (const [what, callerId, created, expected] of [
    [
      'is reached for a key that is bound to containers if this key and the keys that it created have created too many keys',
      3,
      createdBy(4, 9),
      full,
    ],
    [
      'is reached for a key whose creator is a key bound to containers if both together have created too many keys',
      4,
      createdBy(3, 9),
      full,
    ],
    [
      'is not reached for a key that is bound to containers even if its creator, which is not bound, has created many keys',
      3,
      createdBy(2, 98),
      '',
    ],
    [
      'is not reached for an unbound key that has created more keys than a key bound to containers may create',
      2,
      createdBy(2, 98),
      '',
    ],
    [
      'is reached for a key with restricted rights that is not bound to containers if this key has created too many keys',
      2,
      createdBy(2, 99),
      full,
    ],
    [
      'is reached for a key with all rights if all keys with all rights together have created too many keys',
      1,
      createdBy(1, 99),
      full,
    ],
    [
      'is not reached for a key with all rights even if a key with restricted rights has created too many keys',
      1,
      createdBy(2, 99),
      '',
    ],
    [
      'is not reached for an administrator even if a key with restricted rights has created too many keys',
      0,
      createdBy(2, 99),
      '',
    ],
  ] as const)
    it(what, () => expect(code(callerId, [...created])).to.equal(expected))
})
