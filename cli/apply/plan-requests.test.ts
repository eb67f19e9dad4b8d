import { expect } from 'chai'
import { kindOf, type Fields } from './kinds.js'
import { planChanges, type Alteration } from './plan-changes.js'
import { currentItem } from './plan-current.js'
import { changeRequest, createRequest, guestRequests } from './plan-requests.js'
import { planWanted, type WantedItem } from './plan-wanted.js'

const uuid = '11111111-2222-4333-8444-555555555555'
const names = { guests: new Map([[uuid, 'a']]), hosts: new Map([['id-a', 'host-a']]) }
const itemOf = (section: string, fields: object): WantedItem =>
  planWanted([{ [section]: [{ name: 'a', ...fields }] }]).wanted.items[0]!

const row = {
  name: 'a',
  uuid,
  host_id: 'id-a',
  template: 'debian-12',
  ram_mb: 512,
  vcpu: 1,
  tags: ['berth.apply:main'],
  port_mappings: [
    { protocol: 'tcp', container_port: 22, host_port: 1001, description: 'SSH' },
    { protocol: 'tcp', container_port: 80, host_port: 1002, description: '' },
    { protocol: 'udp', container_port: 53, host_port: 1003, description: '' },
  ],
  firewall: { enabled: false, default_action: 'ACCEPT', rules: [] },
}
const current = currentItem(kindOf('guest'), row, names)
const path = `/containers/${uuid}`

describe('the requests that change a guest', () => {
  for (const [name, fields, requests] of [
    ['are not needed if nothing differs', { ram: '512m', tags: [] }, []],
    [
      'change several limits in one request',
      { ram: '1g', vcpu: 2 },
      [['PUT', `${path}/resource-limit`, { vcpu: 2, ram_mb: 1024 }]],
    ],
    [
      'keep the tag with which berth apply marks the guest',
      { tags: ['x'] },
      [['PATCH', path, { tags: ['berth.apply:main', 'x'] }]],
    ],
    [
      'change the firewall',
      { firewall: { enabled: true, default_action: 'DROP' } },
      [['PUT', `${path}/firewall`, { enabled: true, default_action: 'DROP', rules: [] }]],
    ],
    [
      'change descriptions of mappings first, remove mappings from the end of the list next, and add mappings last',
      { ports: [{ guest_port: 22 }, { guest_port: 81, host_port: 1002 }] },
      [
        ['PUT', `${path}/port-mappings/0`, { description: '' }],
        ['DELETE', `${path}/port-mappings/2`, undefined],
        ['DELETE', `${path}/port-mappings/1`, undefined],
        [
          'POST',
          `${path}/port-mappings`,
          {
            protocol: 'tcp',
            container_port: 81,
            container_port_end: 81,
            host_port: 1002,
            host_port_end: 1002,
            description: '',
          },
        ],
      ],
    ],
  ] as const)
    it(`${name}`, () => {
      const found = guestRequests(itemOf('guests', fields), current)
      expect(found.map((request) => [request.method, request.path, request.body])).to.deep.equal(requests)
    })
})

describe('the request that creates an object of a fleet file', () => {
  for (const [name, section, fields, body] of [
    [
      'contains the id of the host, but no settings that later requests send',
      'guests',
      { image: 'debian-12', host: 'host-a', ram: '1g', tags: ['x'], note: 'n', firewall: { enabled: false } },
      { name: 'a', template_id: 'debian-12', host_id: 'id-a', ram_mb: 1024, tags: ['x'] },
    ],
    ['turns off NAT for a guest without mappings', 'guests', { ports: [] }, { name: 'a', assign_nat: false }],
    [
      'contains the mappings of a guest',
      'guests',
      { ports: [{ guest_port: 22 }] },
      {
        name: 'a',
        nat_port_mappings: [
          { protocol: 'tcp', container_port: 22, container_port_end: 22, host_port: 0, description: '' },
        ],
      },
    ],
    ['contains the guests of a customer', 'customers', { guests: ['a'] }, { username: 'a', container_names: ['a'] }],
    [
      'contains the UUIDs of a key’s guests, and its addresses as one text',
      'api_keys',
      { guests: ['a'], ip_whitelist: ['192.0.2.1', '192.0.2.2'] },
      { name: 'a', container_uuids: [uuid], ip_whitelist: '192.0.2.1,192.0.2.2' },
    ],
  ] as const)
    it(`${name}`, () => expect(createRequest(itemOf(section, fields), names).body).to.deep.equal(body))

  it('is refused if a guest of a key is unknown: without this guest, the key could access all guests', () =>
    expect(() => createRequest(itemOf('api_keys', { guests: ['gone'] }), names)).to.throw('guest gone does not exist'))
})

describe('the request that changes an object of a fleet file', () => {
  const changeOf = (document: object, fields: Fields, noun: 'api-key' | 'access-policy'): Alteration => {
    const item = { kind: kindOf(noun), name: noun === 'api-key' ? 'k' : '', id: '7', status: '', fields }
    const present = { items: [item], hosts: undefined }
    return planChanges(planWanted([document]).wanted, present, false).changes[0] as Alteration
  }

  it('contains only the fields that differ', () => {
    const document = { api_keys: [{ name: 'k', scopes: ['x'], disabled: true }] }
    const change = changeOf(document, { scopes: ['x'], disabled: false }, 'api-key')
    expect(changeRequest(change, names)).to.deep.equal({
      method: 'PATCH',
      path: '/api-keys/7',
      body: { disabled: true },
    })
  })

  it('uses PUT for settings of the installation', () => {
    const change = changeOf({ access_policy: { enabled: true } }, { enabled: false }, 'access-policy')
    expect(changeRequest(change, names)).to.deep.equal({
      method: 'PUT',
      path: '/access-policy',
      body: { enabled: true },
    })
  })
})
