import { expect } from 'chai'
import { BerthError } from '../../shared/errors.js'
import { createTimeFormat } from '../../shared/time.js'
import { SshAuthMode } from '../../proto/gen/berth/agent/v1/guest.js'
import type { CreateBody } from './create-body.js'
import { planCreate } from './plan-create.js'

const base: CreateBody = { name: 'web', template_id: 'debian-12' }
const publicKey =
  'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHUkSXm9C1Cx4Vf0VbMT4KjEVxmeDbtC5VxY3l5a3tmk someone@somewhere'

const time = createTimeFormat('UTC')
const plan = (body: Partial<CreateBody> = {}): ReturnType<typeof planCreate> =>
  planCreate({ ...base, ...body }, time)

const portsOf = (body: Partial<CreateBody>): [number, number, string][] =>
  plan(body).spec.portMappings.map((m) => [m.containerPort, m.hostPort, m.protocol])

function failureOf(body: Partial<CreateBody>): [string, string | undefined] {
  try {
    plan(body)
  } catch (error) {
    if (error instanceof BerthError) return [error.code, error.field]
    throw error
  }
  throw new Error('accepted')
}

describe('planning a container from its request', () => {
  it('fills in what may be left out', () => {
    const { spec } = plan()
    expect(spec.limits).to.include({ vcpuMilli: 1000, ramMb: 512, diskGb: 10, networkDownMbps: 0 })
    expect(spec).to.include({ assignNat: true, start: true, templateId: 'debian-12' })
    expect(spec.sshAuthMode).to.equal(SshAuthMode.SSH_AUTH_MODE_AUTO_PASSWORD)
  })

  it('takes fractions of a processor', () => expect(plan({ vcpu: 0.5 }).spec.limits?.vcpuMilli).to.equal(500))

  for (const [name, body, ports] of [
    ['one mapping to SSH by default', {}, [[22, 0, 'tcp']]],
    [
      'SSH first, the others to their own number',
      { port_mapping_count: 3 },
      [
        [22, 0, 'tcp'],
        [0, 0, 'tcp'],
        [0, 0, 'tcp'],
      ],
    ],
    ['none', { port_mapping_count: 0 }, []],
    ['none without NAT', { assign_nat: false }, []],
    [
      'none without NAT, where none are asked for',
      { assign_nat: false, port_mapping_count: 0, extra_ports: [], nat_port_mappings: [] },
      [],
    ],
    ['none without NAT, where extra_ports is no list', { assign_nat: false, extra_ports: 3 }, []],
    [
      'extra ports',
      { extra_ports: [80, 443] },
      [
        [22, 0, 'tcp'],
        [80, 0, 'tcp'],
        [443, 0, 'tcp'],
      ],
    ],
    ['extra_ports that are no list', { extra_ports: 'x' }, [[22, 0, 'tcp']]],
    [
      'explicit ones after SSH',
      { nat_port_mappings: [{ container_port: 53, host_port: 25053, protocol: 'udp' }] },
      [
        [22, 0, 'tcp'],
        [53, 25053, 'udp'],
      ],
    ],
    [
      'an explicit one to SSH in its place',
      { nat_port_mappings: [{ container_port: 80 }, { container_port: 22, host_port: 25022 }] },
      [
        [22, 25022, 'tcp'],
        [80, 0, 'tcp'],
      ],
    ],
  ] as [string, Partial<CreateBody>, [number, number, string][]][])
    it(`maps ports: ${name}`, () => expect(portsOf(body)).to.deep.equal(ports))

  for (const [name, body, code, field] of [
    ['a name of digits', { name: '123' }, 'invalid_field', 'name'],
    ['a name with a slash', { name: 'a/b' }, 'invalid_field', 'name'],
    ['a name that is a path', { name: 'list' }, 'invalid_field', 'name'],
    ['keep', { ssh_auth_mode: 'keep' }, 'invalid_field', 'ssh_auth_mode'],
    ['password mode without one', { ssh_auth_mode: 'password' }, 'missing_field', 'ssh_password'],
    [
      'a short password',
      { ssh_auth_mode: 'password', ssh_password: 'abc123' },
      'invalid_field',
      'ssh_password',
    ],
    [
      'a password without digits',
      { ssh_auth_mode: 'password', ssh_password: 'abcdefgh' },
      'invalid_field',
      'ssh_password',
    ],
    [
      'a password with a blank',
      { ssh_auth_mode: 'password', ssh_password: 'abcd 1234' },
      'invalid_field',
      'ssh_password',
    ],
    ['key mode without one', { ssh_auth_mode: 'key', ssh_public_key: '' }, 'missing_field', 'ssh_public_key'],
    [
      'a key on two lines',
      { ssh_auth_mode: 'key', ssh_public_key: `${publicKey}\n${publicKey}` },
      'invalid_field',
      'ssh_public_key',
    ],
    ['a port that is none', { extra_ports: [0] }, 'invalid_field', 'extra_ports'],
    [
      'a host port twice',
      {
        nat_port_mappings: [
          { container_port: 1, host_port: 25000 },
          { container_port: 2, host_port: 25000 },
        ],
      },
      'invalid_field',
      'nat_port_mappings',
    ],
    [
      'mappings without NAT',
      { assign_nat: false, nat_port_mappings: [{ container_port: 1 }] },
      'invalid_field',
      'nat_port_mappings',
    ],
    [
      'a count without NAT',
      { assign_nat: false, port_mapping_count: 1 },
      'invalid_field',
      'port_mapping_count',
    ],
    ['extra ports without NAT', { assign_nat: false, extra_ports: [80] }, 'invalid_field', 'extra_ports'],
    ['a bad password that no mode uses', { ssh_password: 'short' }, 'invalid_field', 'ssh_password'],
    [
      'a bad password in key mode',
      { ssh_auth_mode: 'key', ssh_public_key: publicKey, ssh_password: 'x' },
      'invalid_field',
      'ssh_password',
    ],
    ['a bad key that no mode uses', { ssh_public_key: 'ssh-rsa x' }, 'invalid_field', 'ssh_public_key'],
    [
      'a bad key in password mode',
      { ssh_auth_mode: 'password', ssh_password: 'abcd1234', ssh_public_key: 'x' },
      'invalid_field',
      'ssh_public_key',
    ],
    ['an expiry that is no time', { expires_at: 'tomorrow' }, 'invalid_field', 'expires_at'],
    ['an expiry that no calendar has', { expires_at: '2030-02-30' }, 'invalid_field', 'expires_at'],
    ['split traffic', { traffic_mode: 'split' }, 'unsupported', 'traffic_mode'],
    ['split traffic by its other name', { traffic_mode: 'in_out' }, 'unsupported', 'traffic_mode'],
    [
      'a mapping on one address',
      { nat_port_mappings: [{ container_port: 80 }, { container_port: 81, host_ip: '192.0.2.1' }] },
      'unsupported',
      'nat_port_mappings.1.host_ip',
    ],
    [
      'too many mappings',
      { port_mapping_count: 1000, extra_ports: [80] },
      'invalid_field',
      'port_mapping_count',
    ],
    ['kvm', { virtualization: 'kvm' }, 'unsupported', 'virtualization'],
    ['public IPv4', { assign_ipv4: true, ipv4_count: 1 }, 'unsupported', 'assign_ipv4'],
    ['a count alone', { ipv6_count: 1 }, 'unsupported', 'ipv6_count'],
    ['explicit addresses', { public_ipv4s: ['192.0.2.1'] }, 'unsupported', 'public_ipv4s'],
    ['an expiry', { expires_at: '2030-01-01' }, 'unsupported', 'expires_at'],
    ['a rate', { network_bw_mbps: 100 }, 'unsupported', 'network_bw_mbps'],
    ['a traffic limit', { monthly_traffic_gb: 1 }, 'unsupported', 'monthly_traffic_gb'],
    ['cloud-init', { user_data: '#cloud-config' }, 'unsupported', 'user_data'],
  ] as [string, Partial<CreateBody>, string, string][])
    it(`refuses ${name}`, () => expect(failureOf(body)).to.deep.equal([code, field]))

  it('takes zeros and empties of what comes later for nothing asked', () => {
    const nothing: Partial<CreateBody> = {
      ...{ assign_ipv4: false, ipv4_count: 1, public_ipv4s: [], assign_ipv6: false, ipv6_count: 0 },
      ...{
        ipv6_addresses: [],
        expires_at: '',
        network_down_mbps: 0,
        io_speed_mbps: 0,
        traffic_mode: 'total',
      },
      ...{ monthly_traffic_gb: 0, snapshot_limit: 0, user_data: '', ssh_password: '', ssh_public_key: '' },
    }
    expect(plan(nothing).spec).to.deep.equal(plan().spec)
  })

  it('takes a good password or key that its mode does not use, and leaves it out', () => {
    const { spec } = plan({ ssh_password: 'abcd1234', ssh_public_key: publicKey })
    expect(spec).to.deep.equal(plan().spec)
    expect(
      plan({ nat_port_mappings: [{ container_port: 80, host_ip: '' }] }).spec.portMappings,
    ).to.have.length(2)
  })

  it('keeps a key as one line', () =>
    expect(plan({ ssh_auth_mode: 'key', ssh_public_key: ` ${publicKey} ` }).spec.sshPublicKey).to.equal(
      publicKey,
    ))
})
