import { expect } from 'chai'
import { BerthError } from '../../../../shared/errors.js'
import { createTimeFormat } from '../../../../shared/time.js'
import type { CreateBody } from './create-body.js'
import { planCreate } from './plan-create.js'

const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHUkSXm9C1Cx4Vf0VbMT4KjEVxmeDbtC5VxY3l5a3tmk someone@somewhere'
const time = createTimeFormat('UTC')

function failureOf(body: Partial<CreateBody>): [string, string | undefined] {
  try {
    planCreate({ name: 'web', template_id: 'debian-12', ...body }, time)
  } catch (error) {
    if (error instanceof BerthError) return [error.code, error.field]
    throw error
  }
  throw new Error('accepted')
}

describe('the plan of a new container', () => {
  for (const [name, body, code, field] of [
    ['a name that consists of digits', { name: '123' }, 'invalid_field', 'name'],
    ['a name with a slash', { name: 'a/b' }, 'invalid_field', 'name'],
    ['a name that would collide with a path of the API', { name: 'list' }, 'invalid_field', 'name'],
    ['the SSH mode "keep"', { ssh_auth_mode: 'keep' }, 'invalid_field', 'ssh_auth_mode'],
    ['the SSH mode "password" without a password', { ssh_auth_mode: 'password' }, 'missing_field', 'ssh_password'],
    [
      'a password and a public key without an SSH mode',
      {
        ssh_password: 'abcd1234',
        ssh_public_key: publicKey,
      },
      'missing_field',
      'ssh_auth_mode',
    ],
    ['a short password', { ssh_auth_mode: 'password', ssh_password: 'abc123' }, 'invalid_field', 'ssh_password'],
    [
      'a password without digits',
      { ssh_auth_mode: 'password', ssh_password: 'abcdefgh' },
      'invalid_field',
      'ssh_password',
    ],
    [
      'a password with a space',
      { ssh_auth_mode: 'password', ssh_password: 'abcd 1234' },
      'invalid_field',
      'ssh_password',
    ],
    [
      'the SSH mode "key" without a public key',
      { ssh_auth_mode: 'key', ssh_public_key: '' },
      'missing_field',
      'ssh_public_key',
    ],
    [
      'two public keys on two lines',
      { ssh_auth_mode: 'key', ssh_public_key: `${publicKey}\n${publicKey}` },
      'invalid_field',
      'ssh_public_key',
    ],
    ['an invalid port in extra_ports', { extra_ports: [0] }, 'invalid_field', 'extra_ports'],
    [
      'two mappings of the same host port',
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
      'explicit mappings if NAT is off',
      { assign_nat: false, nat_port_mappings: [{ container_port: 1 }] },
      'invalid_field',
      'nat_port_mappings',
    ],
    ['extra ports if NAT is off', { assign_nat: false, extra_ports: [80] }, 'invalid_field', 'extra_ports'],
    ['a short password even if no SSH mode is sent', { ssh_password: 'short' }, 'invalid_field', 'ssh_password'],
    [
      'an invalid public key even if no SSH mode is sent',
      { ssh_public_key: 'ssh-rsa x' },
      'invalid_field',
      'ssh_public_key',
    ],
    ['an expiry that is not a valid time', { expires_at: 'tomorrow' }, 'invalid_field', 'expires_at'],
    ['an expiry on a date that does not exist', { expires_at: '2030-02-30' }, 'invalid_field', 'expires_at'],
    [
      'a mapping at an invalid host address',
      { nat_port_mappings: [{ container_port: 80 }, { container_port: 81, host_ip: 'eth0' }] },
      'invalid_field',
      'nat_port_mappings.1.host_ip',
    ],
    [
      'a mapping between port ranges of different lengths',
      { nat_port_mappings: [{ container_port: 80, container_port_end: 89, host_port: 1, host_port_end: 9 }] },
      'invalid_field',
      'nat_port_mappings.0.host_port_end',
    ],
    [
      'a host port within the range of another mapping',
      {
        nat_port_mappings: [
          { container_port: 80, host_port: 25_005, host_ip: '192.0.2.1' },
          { container_port: 1000, host_port: 25_000, host_port_end: 25_010 },
        ],
      },
      'invalid_field',
      'nat_port_mappings',
    ],
    [
      'an IPv4 address that is listed twice',
      { public_ipv4s: ['192.0.2.1', '192.0.2.2', '192.0.2.1'] },
      'invalid_field',
      'public_ipv4s.2',
    ],
    [
      'an IPv6 address that is listed twice in different spellings',
      { ipv6_addresses: ['2001:db8::1', '2001:DB8:0::1'] },
      'invalid_field',
      'ipv6_addresses.1',
    ],
    [
      'a list of IPv4 addresses if assign_ipv4 is off',
      { assign_ipv4: false, public_ipv4s: ['192.0.2.1'] },
      'invalid_field',
      'public_ipv4s',
    ],
    [
      'a list of IPv6 addresses if assign_ipv6 is off',
      { assign_ipv6: false, ipv6_addresses: ['2001:db8::1'] },
      'invalid_field',
      'ipv6_addresses',
    ],
    ['too many mappings', { port_mapping_count: 1000, extra_ports: [80] }, 'invalid_field', 'port_mapping_count'],
    ['user data for an LXC container', { user_data: '#cloud-config' }, 'unsupported', 'user_data'],
  ] as [string, Partial<CreateBody>, string, string][])
    it(`rejects ${name}`, () => expect(failureOf(body)).to.deep.equal([code, field]))
})
