import { expect } from 'chai'
import { planWanted } from './plan-wanted.js'

const fieldsOf = (section: string, value: object): unknown => {
  const { wanted, problems } = planWanted([{ [section]: [{ name: 'x1', ...value }] }])
  expect(problems).to.deep.equal([])
  return wanted.items[0]!.fields
}

describe('the check of a fleet file', () => {
  for (const [name, section, written, canonical] of [
    ['sizes', 'guests', { ram: '1g', disk: 5, traffic_in: '2t' }, { ram: 1024, disk: 5, traffic_in: 2000 }],
    ['a date', 'guests', { expires_at: '2030-02-03' }, { expires_at: '2030-02-03 23:59:59' }],
    ['a time', 'customers', { expires_at: '2030-02-03T04:05' }, { expires_at: '2030-02-03 04:05:00' }],
    ['the expiry “never”', 'guests', { expires_at: 'never' }, { expires_at: '' }],
    ['a list whose order does not matter', 'guests', { tags: ['b', 'a', 'b'] }, { tags: ['a', 'b'] }],
    ['addresses', 'api_keys', { ip_whitelist: ['192.0.2.9/24'] }, { ip_whitelist: ['192.0.2.0/24'] }],
    ['a URL', 'webhooks', { url: 'https://A.example' }, { url: 'https://a.example/' }],
    [
      'placement rules',
      'guests',
      { placement: { spread: 's' } },
      { placement: { group: '', labels: [], spread: 's', together: '' } },
    ],
    [
      'a list of permitted images',
      'customers',
      { allowed_images: [] },
      { image_limit_configured: true, allowed_images: [] },
    ],
    [
      'port mappings',
      'guests',
      { ports: [{ guest_port: 80, guest_port_end: 81, host_port: 90, host_ip: '0.0.0.0' }] },
      {
        ports: [
          {
            protocol: 'tcp',
            guestPort: 80,
            guestPortEnd: 81,
            hostPort: 90,
            hostPortEnd: 91,
            hostIp: '',
            description: '',
          },
        ],
      },
    ],
    [
      'a firewall',
      'guests',
      { firewall: { enabled: true, default_action: 'DROP', rules: [ruleWith({ port: 80 })] } },
      {
        firewall: {
          enabled: true,
          default_action: 'DROP',
          rules: [ruleWith({ port: '80', network: 'all', source_ip: '', description: '' })],
        },
      },
    ],
  ] as const)
    it(`converts ${name} to canonical form`, () => expect(fieldsOf(section, written)).to.deep.equal(canonical))

  for (const [name, document, path, message] of [
    ['a document that is a list', [], '', 'must be a map with sections such as guests'],
    ['an unknown section', { guest: [] }, 'guest', 'is not a section'],
    ['a section that is not a list', { guests: {} }, 'guests', 'must be a list'],
    ['a guest without a name', { guests: [{}] }, 'guests.0.name', 'is required'],
    ['a name that is a number', { guests: [{ name: 5 }] }, 'guests.0.name', 'must be a text'],
    ['an invalid name', { guests: [{ name: 'a b' }] }, 'guests.0.name', 'must be 1 to 63 letters'],
    ['an unknown field', guestWith({ cpu: 1 }), 'guests.0.cpu', 'is not a field; possible: name, image'],
    [
      'a field named like a member of JavaScript objects',
      guestWith({ __proto_: 1 }),
      'guests.0.__proto_',
      'is not a field',
    ],
    ['a text in place of a number', guestWith({ vcpu: '1' }), 'guests.0.vcpu', 'must be a number'],
    ['a fraction', guestWith({ snapshot_limit: 1.5 }), 'guests.0.snapshot_limit', 'must be a whole number'],
    ['an invalid size', guestWith({ ram: 'much' }), 'guests.0.ram', 'not a size'],
    ['a field without a value', guestWith({ note: null }), 'guests.0.note', 'must be a text'],
    [
      'a value that is not one of the permitted words',
      guestWith({ traffic_mode: 'all' }),
      'guests.0.traffic_mode',
      'must be one of total, split',
    ],
    ['an unknown device', guestWith({ devices: ['tun', 'kvm'] }), 'guests.0.devices.1', 'must be one of tun'],
    ['an invalid tag', guestWith({ tags: ['A B'] }), 'guests.0.tags', 'each tag must be'],
    [
      'a time with an offset',
      guestWith({ expires_at: '2030-01-01T00:00:00Z' }),
      'guests.0.expires_at',
      'must be never',
    ],
    ['a mapping without a port', guestWith({ ports: [{}] }), 'guests.0.ports.0', 'guest_port is required'],
    ['an invalid port', guestWith({ ports: [{ guest_port: 0.5 }] }), 'guests.0.ports.0.guest_port', 'must be a whole'],
    [
      'a range that ends before its first port',
      guestWith({ ports: [{ guest_port: 9, guest_port_end: 8 }] }),
      'guests.0.ports.0.guest_port_end',
      'must not be below guest_port',
    ],
    [
      'a firewall rule with an invalid source address',
      guestWith({ firewall: { enabled: true, default_action: 'DROP', rules: [ruleWith({ source_ip: 'x' })] } }),
      'guests.0.firewall.rules.0.source_ip',
      'must be an IP address',
    ],
    [
      'an unknown field of a firewall rule',
      guestWith({ firewall: { enabled: false, rules: [ruleWith({ ports: '80' })] } }),
      'guests.0.firewall.rules.0.ports',
      'is not a field',
    ],
    [
      'a firewall without a default action',
      guestWith({ firewall: { enabled: true } }),
      'guests.0.firewall',
      'default_action is required',
    ],
    [
      'two guests with the same name',
      { guests: [{ name: 'a' }, { name: 'a' }] },
      'guests.1',
      'guest a appears more than once',
    ],
    [
      'two customers whose names differ in case',
      { customers: [{ name: 'a' }, { name: 'A' }] },
      'customers.1',
      'customer A appears more than once',
    ],
    ['an invalid name of the file’s set', { set: 'a b' }, 'set', 'must be 1 to 20'],
    [
      'an invalid address',
      { access_policy: { allowed_sources: ['x'] } },
      'access_policy.allowed_sources.0',
      'must be an IP',
    ],
  ] as const)
    it(`refuses ${name}`, () => {
      const [problem, ...others] = planWanted([document]).problems
      expect(others).to.deep.equal([])
      expect(problem?.path.join('.')).to.equal(path)
      expect(problem?.message).to.contain(message)
    })

  it('joins the documents of a file, and refuses names and settings that appear in two documents', () => {
    const first = { set: 'shop', guests: [{ name: 'a' }], login_settings: { require_2fa: 'all' } }
    const { wanted, problems } = planWanted([first, null, { guests: [{ name: 'b' }] }])
    expect([wanted.set, wanted.items.map(({ name }) => name), problems]).to.deep.equal(['shop', ['a', '', 'b'], []])
    const twice = planWanted([first, first]).problems.map(({ document, message }) => [document, message])
    expect(twice).to.deep.equal([
      [1, 'appears more than once'],
      [1, 'guest a appears more than once'],
      [1, 'login_settings appears more than once'],
    ])
  })
})

function guestWith(fields: object): object {
  return { guests: [{ name: 'x1', ...fields }] }
}

function ruleWith(fields: object): object {
  return { direction: 'in', protocol: 'tcp', action: 'ACCEPT', ...fields }
}
