import { expect } from 'chai'
import { change, keysOf, record, removal } from '../../test/support/gateway/key-records.js'
import type { KeyRecord } from './key-record.js'
import { checkKeyLimit, mayManage, planNewKey, rightsOf, type KeyFields } from './plan-keys.js'

describe('creating a key', () => {
  const limited = record(2, {
    scopes: ['container:*', 'apikey:create'],
    containerUuids: ['u1', 'u2'],
    addresses: ['10.0.0.0/24'],
    expiresAtMs: 5000,
  })
  const make = (fields: KeyFields) => planNewKey(fields, rightsOf(keysOf(limited), limited))

  it('copies missing limits from the creator, and adds only default scopes that the creator has', () =>
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
    [
      'a key for requests from all addresses if the creator is restricted to a network',
      'ip_whitelist',
      { addresses: [] },
    ],
    ['a larger network than the network of the creator', 'ip_whitelist', { addresses: ['10.0.0.0/23'] }],
    ['a key without an expiry if the creator has an expiry', 'expires_at', { expiresAtMs: 0 }],
    ['a key that expires after its creator', 'expires_at', { expiresAtMs: 5001 }],
  ] as const)
    it(`rejects ${name}`, () =>
      expect(() => make({ scopes: ['container:read'], ...fields }))
        .to.throw()
        .with.property('field', field))

  it('accepts rights that do not exceed the rights of the creator', () =>
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
  it('is rejected for the caller’s own key, and for the key that created it if the caller has restricted rights', () => {
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

  it('can add only rights of the caller, and a restricted caller can add rights only to keys that it created', () => {
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

  it('is rejected, and so is a deletion, if no usable key with unlimited rights would remain', () => {
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
  it('also deletes all keys that this key created, directly or indirectly, if this key has restricted rights', () => {
    const keys = keysOf(
      record(1),
      record(2, { scopes: ['apikey:*'] }),
      record(3, { scopes: ['apikey:*'], parentId: 2 }),
      record(4, { scopes: ['apikey:read'], parentId: 3 }),
    )
    expect(removal(keys, 1, 2).removed.map((key) => key.id)).to.deep.equal([2, 3, 4])
  })

  it('makes the creator of this key the creator of the keys that this key created, if this key has unlimited rights', () => {
    const keys = keysOf(record(1), record(2, { parentId: 1 }), record(3, { parentId: 2, scopes: ['swap:read'] }))
    const { removed, adopted } = removal(keys, 1, 2)
    expect(removed.map((key) => key.id)).to.deep.equal([2])
    expect(adopted).to.deep.equal([record(3, { parentId: 1, scopes: ['swap:read'] })])
  })
})

describe('the limit on the number of keys that a caller can create', () => {
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
    ['counts all keys that a key bound to containers has created, directly or indirectly', 3, createdBy(4, 9), full],
    ['is shared by a key bound to containers and the keys that it has created', 4, createdBy(3, 9), full],
    ['ignores the other keys of the creator if the caller is a key bound to containers', 3, createdBy(2, 98), ''],
    ['is higher for a key that is not bound to containers', 2, createdBy(2, 98), ''],
    [
      'counts the keys that a restricted key has created, even if this key is not bound to containers',
      2,
      createdBy(2, 99),
      full,
    ],
    ['counts the keys that all unrestricted keys have created together', 1, createdBy(1, 99), full],
    [
      'ignores the keys that a restricted key has created if the caller is an unrestricted key',
      1,
      createdBy(2, 99),
      '',
    ],
    ['ignores the keys that a restricted key has created if the caller is an administrator', 0, createdBy(2, 99), ''],
  ] as const)
    it(what, () => expect(code(callerId, [...created])).to.equal(expected))
})
