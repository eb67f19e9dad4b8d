import { expect } from 'chai'
import { differenceLines, differenceRows } from './difference.js'
import { kindOf, type Fields, type Noun } from './kinds.js'
import { planChanges } from './plan-changes.js'
import type { CurrentItem } from './plan-current.js'
import { planWanted, type WantedState } from './plan-wanted.js'

const hosts = new Map([['id-a', 'host-a']])
const present = (name: string, fields: Fields, more: { status?: string; noun?: Noun } = {}): CurrentItem => {
  const { status = 'running', noun = 'guest' } = more
  const host = noun === 'guest' ? { image: 'debian-12', host: 'host-a', tags: [] } : {}
  return { kind: kindOf(noun), name, id: `id-of-${name}`, status, fields: { ...host, ...fields } }
}
const wanted = (document: object): WantedState => planWanted([document]).wanted
const planOf = (document: object, items: readonly CurrentItem[] = [], isPruned = false) =>
  planChanges(wanted(document), { items, hosts }, isPruned)
const guests = (...list: object[]): object => ({ guests: list })
const own = { tags: ['berth.apply:main'] }

describe('the changes planned by `berth apply`', () => {
  for (const [name, document, items, lines] of [
    ['are empty if the guest is as in the file', guests({ name: 'a', ram: '1g' }), [present('a', { ram: 1024 })], []],
    [
      'ignore fields that the file does not contain',
      guests({ name: 'a' }),
      [present('a', { ram: 1024, tags: ['x'] })],
      [],
    ],
    [
      'ignore fields that matter only for the creation of a guest',
      guests({ name: 'a', start: false, ssh_public_key: 'k' }),
      [present('a', {})],
      [],
    ],
    ['ignore the case of names', guests({ name: 'A', ram: '1g' }), [present('a', { ram: 1024 })], []],
    [
      'show the length of user data, but not its text',
      guests({ name: 'a', image: 'debian-12', user_data: 'password' }),
      [],
      ['+ guest a', '    image: debian-12', '    user_data: (8 characters)'],
    ],
    [
      'announce that a key without guests in the file will have access to all guests',
      { api_keys: [{ name: 'k', guests: [] }] },
      [present('k', { guests: ['a'] }, { noun: 'api-key' })],
      ['~ api-key k', '    guests: a → all guests'],
    ],
    [
      'ignore the tags with which berth apply marks its guests',
      guests({ name: 'a', tags: ['x'] }),
      [present('a', { tags: ['berth.apply:shop', 'x'] })],
      [],
    ],
    [
      'are empty if the file names the guest’s host by its id',
      guests({ name: 'a', host: 'id-a' }),
      [present('a', {})],
      [],
    ],
    [
      'ignore the chosen host port if the file contains no host port',
      guests({ name: 'a', ports: [{ guest_port: 22 }] }),
      [present('a', { ports: [mapping(22, 20_001)] })],
      [],
    ],
    [
      'ignore the firewall if the firewall of the guest was not read',
      guests({ name: 'a', firewall: { enabled: false } }),
      [present('a', {})],
      [],
    ],
    ['contain a new guest', guests({ name: 'a', image: 'debian-12' }), [], ['+ guest a', '    image: debian-12']],
    [
      'contain the old and the new value of each changed field',
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
      'contain removed and added port mappings',
      guests({ name: 'a', ports: [{ guest_port: 80, description: 'web' }, { guest_port: 22 }] }),
      [present('a', { ports: [mapping(22, 1), mapping(22, 2), mapping(80, 3)] })],
      ['~ guest a', '    ports:', '      - tcp 2 → 22', '      - tcp 3 → 80', '      + tcp 3 → 80 (web)'],
    ],
    [
      'contain a changed webhook, even if its name differs in case',
      { webhooks: [{ name: 'HOOK', disabled: true }] },
      [present('hook', { disabled: false }, { noun: 'webhook' })],
      ['~ webhook HOOK', '    disabled: no → yes'],
    ],
    [
      'contain a changed setting of the installation',
      { login_settings: { require_2fa: 'all' } },
      [present('', { require_2fa: 'none' }, { noun: 'login-settings' })],
      ['~ login-settings', '    require_2fa: none → all'],
    ],
    [
      'replace control characters',
      guests({ name: 'a', note: 'b' }),
      [present('a', { note: '\u001b[31m\u202ered' })],
      ['~ guest a', '    note: \ufffd[31m\ufffdred → b'],
    ],
    [
      'mention a guest that is still being created',
      guests({ name: 'a' }),
      [present('a', {}, { status: 'creating' })],
      ['… guest a is still being created'],
    ],
    [
      'contain a hint instead of a move if the file names another host',
      guests({ name: 'a', host: 'host-a' }),
      [present('a', { host: 'host-b' })],
      ['note: guest a is on host host-b and stays there; move it with: berth migrate a host-a'],
    ],
  ] as const)
    it(`${name}`, () => {
      const plan = planOf(document, items)
      expect(plan.problems).to.deep.equal([])
      expect(differenceLines(plan)).to.deep.equal(lines)
    })

  it('can be converted to machine-readable rows', () =>
    expect(
      differenceRows(planOf(guests({ name: 'a', ram: '2g' }), [present('a', { ram: 1024 })]).changes),
    ).to.deep.equal([
      { action: 'change', kind: 'guest', name: 'a', fields: [{ field: 'ram', before: '1024m', after: '2048m' }] },
    ]))

  for (const [name, document, items, path, message] of [
    ['a new guest without an image', guests({ name: 'a' }), [], 'guests.0', 'image is required for a new guest'],
    [
      'another image of an existing guest',
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
      'an unknown guest of a customer',
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
    it(`are refused for ${name}`, () => {
      const found = planOf(document, items).problems.map((problem) => [problem.path.join('.'), problem.message])
      expect(found).to.deep.equal([[path, message]])
    })

  for (const [name, document, item, isPruned, lines] of [
    ['delete a guest that is no longer in the file', guests(), present('a', own), true, ['- guest a']],
    [
      'delete no guest without --prune',
      guests(),
      present('a', own),
      false,
      ['note: guest a is no longer in the file; --prune deletes it'],
    ],
    ['delete no guest that another file manages', guests(), present('a', { tags: ['berth.apply:shop'] }), true, []],
    ['delete no guest that no file manages', guests(), present('a', {}), true, []],
    ['delete no guest if the file has no section for guests', {}, present('a', own), true, []],
    ['delete no guest that is already being deleted', guests(), present('a', own, { status: 'deleting' }), true, []],
    [
      'delete no guest that is protected from deletion',
      guests(),
      present('a', { ...own, delete_protected: true }),
      true,
      ['note: guest a is protected from deletion and stays'],
    ],
  ] as const)
    it(`${name}`, () => expect(differenceLines(planOf(document, [item], isPruned))).to.deep.equal(lines))
})

function mapping(guestPort: number, hostPort: number): object {
  const ends = { guestPortEnd: guestPort, hostPortEnd: hostPort }
  return { protocol: 'tcp', guestPort, hostPort, ...ends, hostIp: '', description: '' }
}
