import { expect } from 'chai'
import fc from 'fast-check'
import { PortMapping, TrafficLimit, type GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { CreateOrder } from '../../../proto/gen/berth/agent/v1/operation.js'
import { BerthError } from '../../../shared/errors.js'
import { parseCreate } from './parse-create.js'

const spec: GuestSpec = {
  virtualization: 'lxc',
  userData: '',
  devices: [],
  templateId: 'debian-12',
  limits: {
    vcpuMilli: 500,
    ramMb: 256,
    diskGb: 2,
    networkDownMbps: 0,
    networkUpMbps: 0,
    ioReadMbps: 0,
    ioWriteMbps: 0,
  },
  assignNat: true,
  portMappings: [PortMapping.create({ containerPort: 22, protocol: 'tcp' })],
  sshAuthMode: 'auto_password',
  sshPassword: '',
  sshPublicKey: '',
  start: true,
  ipv4Count: 0,
  publicIpv4s: [],
  ipv6Count: 0,
  ipv6Addresses: [],
  expiresAtMs: 0,
  traffic: undefined,
  snapshotLimit: 5,
}

const request: CreateOrder = {
  id: 1,
  uuid: '00000000-0000-4000-8000-000000000002',
  name: 'web-1',
  spec,
}

const withSpec = (change: Partial<GuestSpec>): CreateOrder => ({
  ...request,
  spec: { ...spec, ...change },
})
const withLimits = (change: object): CreateOrder => withSpec({ limits: { ...spec.limits!, ...change } })
const withMapping = (change: object): CreateOrder =>
  withSpec({ portMappings: [{ ...spec.portMappings[0]!, ...change }] })
const withTraffic = (change: Partial<TrafficLimit>): CreateOrder => withSpec({ traffic: TrafficLimit.create(change) })

/** A key in OpenSSH's format: `ssh-ed25519` and 32 bytes. */
const ed25519 = `ssh-ed25519 ${Buffer.from(`\0\0\0\x0bssh-ed25519\0\0\0 ${'k'.repeat(32)}`, 'latin1').toString('base64')}`

function codeOf(bad: CreateOrder): string {
  try {
    parseCreate(bad)
  } catch (error) {
    if (error instanceof BerthError && error.kind === 'invalid') return `${error.code} ${error.field ?? ''}`
    throw error
  }
  return 'accepted'
}

describe('parseCreate', () => {
  it('accepts a minimal request', () => {
    expect(parseCreate(request)).to.deep.include({
      name: 'web-1',
      virtualization: 'lxc',
      login: { kind: 'auto' },
    })
  })

  it('accepts addresses, a quota, rates and a time', () => {
    const order = parseCreate({
      ...request,
      spec: {
        ...spec,
        limits: { ...spec.limits!, networkDownMbps: 100, networkUpMbps: 0 },
        ipv4Count: 2,
        publicIpv4s: ['198.51.100.7'],
        ipv6Count: 1,
        ipv6Addresses: ['2001:0DB8::0001'],
        expiresAtMs: 1_800_000_000_000,
        traffic: TrafficLimit.create({
          mode: 'split',
          inGb: 5,
          action: 'throttle',
          throttleMbps: 10,
        }),
      },
    })
    expect(order).to.deep.include({
      ipv4Count: 2,
      publicIpv4s: ['198.51.100.7'],
      ipv6Count: 1,
      ipv6Addresses: ['2001:db8::1'],
      expiresAtMs: 1_800_000_000_000,
      traffic: { mode: 'split', monthlyGb: 0, inGb: 5, outGb: 0, action: 'throttle', throttleMbps: 10, resetDay: 0 },
    })
    expect(order.limits).to.include({ networkDownMbps: 100, networkUpMbps: 0 })
  })

  it('accepts a key and a password', () => {
    const key = parseCreate(withSpec({ sshAuthMode: 'key', sshPublicKey: `${ed25519} me@home` }))
    expect(key.login).to.deep.equal({ kind: 'key', publicKey: `${ed25519} me@home` })
    const password = parseCreate(withSpec({ sshAuthMode: 'password', sshPassword: 'abcdefg1' }))
    expect(password.login).to.deep.equal({ kind: 'password', password: 'abcdefg1' })
  })

  for (const [name, bad, code] of [
    ['no spec', { ...request, spec: undefined }, 'missing_field spec'],
    ['no limits', withSpec({ limits: undefined }), 'missing_field spec'],
    ['a path as name', { ...request, name: '../etc' }, 'invalid_field name'],
    ['a newline in the name', { ...request, name: 'a\nlxc.hook.start=/bin/sh' }, 'invalid_field name'],
    ['a leading dash', { ...request, name: '-rf' }, 'invalid_field name'],
    ['digits only', { ...request, name: '123' }, 'invalid_field name'],
    ['a uuid as name', { ...request, name: request.uuid }, 'invalid_field name'],
    ['an endless name', { ...request, name: 'a'.repeat(64) }, 'invalid_field name'],
    ['id 0', { ...request, id: 0 }, 'invalid_field id'],
    ['an id past 2^53', { ...request, id: 2 ** 60 }, 'invalid_field id'],
    ['an id too long for an interface', { ...request, id: 1e10 }, 'invalid_field id'],
    ['a path as uuid', { ...request, uuid: '../../x' }, 'invalid_field uuid'],
    ['an upper-case uuid', { ...request, uuid: 'ABCDEF00-0000-4000-8000-000000000002' }, 'invalid_field uuid'],
    ['a path as template', withSpec({ templateId: '../debian-12' }), 'invalid_field template_id'],
    ['no virtualization', withSpec({ virtualization: '' }), 'invalid_field virtualization'],
    ['another virtualization', withSpec({ virtualization: 'xen' }), 'invalid_field virtualization'],
    ['user data for a container', withSpec({ userData: '#!/bin/sh' }), 'unsupported user_data'],
    ['endless user data', withSpec({ virtualization: 'kvm', userData: 'x'.repeat(65_537) }), 'invalid_field user_data'],
    ['no processor', withLimits({ vcpuMilli: 0 }), 'invalid_field vcpu'],
    ['NaN memory', withLimits({ ramMb: NaN }), 'invalid_field ram_mb'],
    ['a fraction of a disk', withLimits({ diskGb: 1.5 }), 'invalid_field disk_gb'],
    ['an endless network rate', withLimits({ networkUpMbps: 1e6 }), 'invalid_field network_up_mbps'],
    ['257 addresses', withSpec({ ipv4Count: 257 }), 'invalid_field ipv4_count'],
    ['half an address', withSpec({ ipv6Count: 0.5 }), 'invalid_field ipv6_count'],
    ['a name as address', withSpec({ publicIpv4s: ['host'] }), 'invalid_field public_ipv4s'],
    ['IPv6 as IPv4', withSpec({ publicIpv4s: ['2001:db8::1'] }), 'invalid_field public_ipv4s'],
    ['an address twice', withSpec({ ipv6Addresses: ['2001:db8::1', '2001:DB8:0::1'] }), 'invalid_field ipv6_addresses'],
    ['an address and more', withSpec({ ipv6Addresses: ['::1; flush'] }), 'invalid_field ipv6_addresses'],
    ['a zone', withSpec({ ipv6Addresses: ['fe80::1%eth0'] }), 'invalid_field ipv6_addresses'],
    ['a time before all times', withSpec({ expiresAtMs: -1 }), 'invalid_field expires_at'],
    ['a time after all times', withSpec({ expiresAtMs: 1e15 }), 'invalid_field expires_at'],
    ['a quota below 0', withTraffic({ monthlyGb: -1 }), 'invalid_field monthly_traffic_gb'],
    ['a 32nd day', withTraffic({ resetDay: 32 }), 'invalid_field traffic_reset_day'],
    ['an action of tomorrow', withTraffic({ action: 'of tomorrow' }), 'invalid_field traffic_action'],
    ['a mode of tomorrow', withTraffic({ mode: 'of tomorrow' }), 'invalid_field traffic_mode'],
    ['a host name to answer on', withMapping({ hostIp: 'localhost' }), 'invalid_field host_ip'],
    ['a range that ends before', withMapping({ containerPortEnd: 21 }), 'invalid_field container_port_end'],
    [
      'ranges of two lengths',
      withMapping({ containerPortEnd: 30, hostPort: 20000, hostPortEnd: 20001 }),
      'invalid_field host_port_end',
    ],
    ['a foreign protocol', withMapping({ protocol: 'sctp' }), 'invalid_field protocol'],
    ['port 65536', withMapping({ hostPort: 65_536 }), 'invalid_field host_port'],
    ['a two-line description', withMapping({ description: 'a\u2028b' }), 'invalid_field description'],
    ['mappings without NAT', withSpec({ assignNat: false }), 'invalid_field port_mappings'],
    [
      'too many mappings',
      withSpec({ portMappings: Array.from({ length: 1001 }, () => spec.portMappings[0]!) }),
      'invalid_field port_mappings',
    ],
    ['no login', withSpec({ sshAuthMode: '' }), 'invalid_field ssh_auth_mode'],
    ['a weak password', withSpec({ sshAuthMode: 'password', sshPassword: 'abcdefgh' }), 'invalid_field ssh_password'],
    [
      'a two-line password',
      withSpec({ sshAuthMode: 'password', sshPassword: 'abcdef1\nroot:x1' }),
      'invalid_field ssh_password',
    ],
    [
      'two keys',
      withSpec({ sshAuthMode: 'key', sshPublicKey: `${ed25519}\n${ed25519}` }),
      'invalid_field ssh_public_key',
    ],
    [
      'a key with options',
      withSpec({ sshAuthMode: 'key', sshPublicKey: `command="x" ${ed25519}` }),
      'invalid_field ssh_public_key',
    ],
    [
      'a key of another type',
      withSpec({
        sshAuthMode: 'key',
        sshPublicKey: ed25519.replace('ed25519 ', 'rsa ').replace('ssh-rsa', 'ssh-rsa'),
      }),
      'invalid_field ssh_public_key',
    ],
  ] as const)
    it(`refuses ${name}`, () => expect(codeOf(bad)).to.equal(code))

  it('refuses control characters in every text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (name, description) => {
        const order = { ...withMapping({ description }), name }
        if (codeOf(order) !== 'accepted') return
        const parsed = parseCreate(order)
        expect(parsed.name).to.match(/^[A-Za-z0-9][A-Za-z0-9._-]*$/)
        expect(parsed.portMappings[0]!.description).not.to.match(/[\p{Cc}\u2028\u2029]/u)
      }),
      { numRuns: 2000 },
    )
  })
})
