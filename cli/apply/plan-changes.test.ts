import { expect } from 'chai'
import { differenceLines, differenceRows } from './difference.js'
import { kindOf, type Fields, type Noun } from './kinds.js'
import { planChanges } from './plan-changes.js'
import type { CurrentItem } from './plan-current.js'
import { planWanted, type Wanted } from './plan-wanted.js'

const hosts = new Map([['id-a', 'host-a']])
const present = (name: string, fields: Fields, more: { status?: string; noun?: Noun } = {}): CurrentItem => {
  const { status = 'running', noun = 'guest' } = more
  const host = noun === 'guest' ? { image: 'debian-12', host: 'host-a', tags: [] } : {}
  return { kind: kindOf(noun), name, id: `id-of-${name}`, status, fields: { ...host, ...fields } }
}
const wanted = (document: object): Wanted => planWanted([document]).wanted
const planOf = (document: object, items: readonly CurrentItem[] = [], isPruned = false) =>
  planChanges(wanted(document), { items, hosts }, isPruned)
const guests = (...list: object[]): object => ({ guests: list })
const own = { tags: ['berth.apply:main'] }

describe('planChanges', () => {
  for (const [name, document, items, lines] of [
    ['equal objects', guests({ name: 'a', ram: '1g' }), [present('a', { ram: 1024 })], []],
    ['fields that are not in the file', guests({ name: 'a' }), [present('a', { ram: 1024, tags: ['x'] })], []],
    ['fields for new guests', guests({ name: 'a', start: false, ssh_public_key: 'k' }), [present('a', {})], []],
    ['names in upper and lower case', guests({ name: 'A', ram: '1g' }), [present('a', { ram: 1024 })], []],
    [
      'user data without its text',
      guests({ name: 'a', image: 'debian-12', user_data: 'password' }),
      [],
      ['+ guest a', '    image: debian-12', '    user_data: (8 characters)'],
    ],
    [
      'a key that then may access all guests',
      { api_keys: [{ name: 'k', guests: [] }] },
      [present('k', { guests: ['a'] }, { noun: 'api-key' })],
      ['~ api-key k', '    guests: a → all guests'],
    ],
    ['marks', guests({ name: 'a', tags: ['x'] }), [present('a', { tags: ['berth.apply:shop', 'x'] })], []],
    ['a host by its id', guests({ name: 'a', host: 'id-a' }), [present('a', {})], []],
    [
      'a port that Berth has chosen',
      guests({ name: 'a', ports: [{ guest_port: 22 }] }),
      [present('a', { ports: [mapping(22, 20_001)] })],
      [],
    ],
    ['an unreadable firewall', guests({ name: 'a', firewall: { enabled: false } }), [present('a', {})], []],
    ['a new guest', guests({ name: 'a', image: 'debian-12' }), [], ['+ guest a', '    image: debian-12']],
    [
      'changed fields',
      guests({ name: 'a', ram: '2g', delete_protected: true, expires_at: '2030-01-01', note: '' }),
      [present('a', { ram: 1024, delete_protected: false, expires_at: '', note: 'old' })],
      [
        '~ guest a',
        '    ram: 1024m → 2048m',
        '    expires_at: never → 2030-01-01 23:59:59',
        '    note: old → none',
        '    delete_protected: no → yes',
      ],
    ],
    [
      'changed ports',
      guests({ name: 'a', ports: [{ guest_port: 80, description: 'web' }, { guest_port: 22 }] }),
      [present('a', { ports: [mapping(22, 1), mapping(22, 2), mapping(80, 3)] })],
      ['~ guest a', '    ports:', '      - tcp 2 → 22', '      - tcp 3 → 80', '      + tcp 3 → 80 (web)'],
    ],
    [
      'another kind',
      { webhooks: [{ name: 'HOOK', disabled: true }] },
      [present('hook', { disabled: false }, { noun: 'webhook' })],
      ['~ webhook HOOK', '    disabled: no → yes'],
    ],
    [
      'settings',
      { login_settings: { require_2fa: 'all' } },
      [present('', { require_2fa: 'none' }, { noun: 'login-settings' })],
      ['~ login-settings', '    require_2fa: none → all'],
    ],
    [
      'control characters',
      guests({ name: 'a', note: 'b' }),
      [present('a', { note: '\u001b[31m\u202ered' })],
      ['~ guest a', '    note: \ufffd[31m\ufffdred → b'],
    ],
    [
      'an unfinished creation',
      guests({ name: 'a' }),
      [present('a', {}, { status: 'creating' })],
      ['… guest a is still being created'],
    ],
    [
      'a guest on another host',
      guests({ name: 'a', host: 'host-a' }),
      [present('a', { host: 'host-b' })],
      ['note: guest a is on host host-b and stays there; move it with: berth migrate a host-a'],
    ],
  ] as const)
    it(`compares ${name}`, () => {
      const plan = planOf(document, items)
      expect(plan.problems).to.deep.equal([])
      expect(differenceLines(plan)).to.deep.equal(lines)
    })

  it('returns rows for programs', () =>
    expect(
      differenceRows(planOf(guests({ name: 'a', ram: '2g' }), [present('a', { ram: 1024 })]).changes),
    ).to.deep.equal([
      { action: 'change', kind: 'guest', name: 'a', fields: [{ field: 'ram', before: '1024m', after: '2048m' }] },
    ]))

  for (const [name, document, items, path, message] of [
    ['a new guest without an image', guests({ name: 'a' }), [], 'guests.0', 'image is required for a new guest'],
    [
      'another image',
      guests({ name: 'a', image: 'ubuntu' }),
      [present('a', {})],
      'guests.0.image',
      'is debian-12 and cannot be changed to ubuntu',
    ],
    [
      'a smaller disk',
      guests({ name: 'a', disk: 5 }),
      [present('a', { disk: 9 })],
      'guests.0.disk',
      'cannot shrink from 9g',
    ],
    ['an unknown host', guests({ name: 'a', host: 'x' }), [present('a', {})], 'guests.0.host', 'host x does not exist'],
    [
      'an unknown guest',
      { customers: [{ name: 'a', guests: ['nobody'] }] },
      [present('a', { guests: [] }, { noun: 'customer' })],
      'customers.0.guests',
      'guest nobody does not exist',
    ],
    [
      'a name that two keys have',
      { api_keys: [{ name: 'k' }] },
      [present('k', {}, { noun: 'api-key' }), present('k', {}, { noun: 'api-key' })],
      'api_keys.0',
      '2 objects of the fleet have this name: give them different names first',
    ],
  ] as const)
    it(`refuses ${name}`, () => {
      const found = planOf(document, items).problems.map((problem) => [problem.path.join('.'), problem.message])
      expect(found).to.deep.equal([[path, message]])
    })

  for (const [name, document, item, isPruned, lines] of [
    ['its own guest', guests(), present('a', own), true, ['- guest a']],
    [
      'nothing without --prune',
      guests(),
      present('a', own),
      false,
      ['note: guest a is no longer in the file; --prune deletes it'],
    ],
    ['no guest of another set', guests(), present('a', { tags: ['berth.apply:shop'] }), true, []],
    ['no guest without a mark', guests(), present('a', {}), true, []],
    ['nothing without the section guests', {}, present('a', own), true, []],
    ['no guest that is being deleted', guests(), present('a', own, { status: 'deleting' }), true, []],
    [
      'no protected guest',
      guests(),
      present('a', { ...own, delete_protected: true }),
      true,
      ['note: guest a is protected from deletion and stays'],
    ],
  ] as const)
    it(`deletes ${name}`, () => expect(differenceLines(planOf(document, [item], isPruned))).to.deep.equal(lines))
})

function mapping(guestPort: number, hostPort: number): object {
  const ends = { guestPortEnd: guestPort, hostPortEnd: hostPort }
  return { protocol: 'tcp', guestPort, hostPort, ...ends, hostIp: '', description: '' }
}
