import { expect } from 'chai'
import fc from 'fast-check'
import { GuestSpec, PortMapping, TrafficLimit } from '../../../proto/gen/berth/agent/v1/guest.js'
import { BackupScheduleChange, Firewall } from '../../../proto/gen/berth/agent/v1/network.js'
import type { CreateOrder } from '../../../proto/gen/berth/agent/v1/operation.js'
import { BerthError } from '../../../shared/errors.js'
import { parseCreate } from './parse-create.js'

const spec = GuestSpec.create({
  virtualization: 'lxc',
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
  start: true,
  snapshotLimit: 5,
})

const request: CreateOrder = {
  id: 1,
  uuid: '00000000-0000-4000-8000-000000000002',
  name: 'web-1',
  spec,
  overcommit: undefined,
  firewall: undefined,
  backupSchedule: undefined,
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

describe('the check of a request to create a guest', () => {
  it('accepts a minimal request', () => {
    expect(parseCreate(request)).to.deep.include({
      name: 'web-1',
      virtualization: 'lxc',
      login: { kind: 'auto' },
    })
  })

  it('accepts addresses, a quota, rates, tags and an expiry time', () => {
    const order = parseCreate({
      ...request,
      spec: {
        ...spec,
        limits: { ...spec.limits!, networkDownMbps: 100, networkUpMbps: 0 },
        ipv4Count: 2,
        publicIpv4s: ['198.51.100.7'],
        ipv6Count: 1,
        ipv6Addresses: ['2001:0DB8::0001'],
        tags: ['web', 'paid', 'web'],
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
      labels: { tags: ['paid', 'web'], note: '', deleteProtected: false },
      expiresAtMs: 1_800_000_000_000,
      traffic: { mode: 'split', monthlyGb: 0, inGb: 5, outGb: 0, action: 'throttle', throttleMbps: 10, resetDay: 0 },
    })
    expect(order.limits).to.include({ networkDownMbps: 100, networkUpMbps: 0 })
  })

  it('accepts a login with a key and a login with a password', () => {
    const key = parseCreate(withSpec({ sshAuthMode: 'key', sshPublicKey: `${ed25519} me@home` }))
    expect(key.login).to.deep.equal({ kind: 'key', publicKey: `${ed25519} me@home` })
    const password = parseCreate(withSpec({ sshAuthMode: 'password', sshPassword: 'abcdefg1' }))
    expect(password.login).to.deep.equal({ kind: 'password', password: 'abcdefg1' })
  })

  for (const [name, bad, code] of [
    ['a request without a spec', { ...request, spec: undefined }, 'missing_field spec'],
    ['a request without limits', withSpec({ limits: undefined }), 'missing_field spec'],
    ['a path as name', { ...request, name: '../etc' }, 'invalid_field name'],
    ['a newline in the name', { ...request, name: 'a\nlxc.hook.start=/bin/sh' }, 'invalid_field name'],
    ['a name with a leading dash', { ...request, name: '-rf' }, 'invalid_field name'],
    ['a name that consists only of digits', { ...request, name: '123' }, 'invalid_field name'],
    ['a uuid as name', { ...request, name: request.uuid }, 'invalid_field name'],
    ['a name of 64 characters', { ...request, name: 'a'.repeat(64) }, 'invalid_field name'],
    ['the id 0', { ...request, id: 0 }, 'invalid_field id'],
    ['an id above 2^53', { ...request, id: 2 ** 60 }, 'invalid_field id'],
    ['an id that is too long for an interface name', { ...request, id: 1e10 }, 'invalid_field id'],
    ['a path as uuid', { ...request, uuid: '../../x' }, 'invalid_field uuid'],
    ['an upper-case uuid', { ...request, uuid: 'ABCDEF00-0000-4000-8000-000000000002' }, 'invalid_field uuid'],
    ['a path as template id', withSpec({ templateId: '../debian-12' }), 'invalid_field template_id'],
    ['a request without a kind of virtualization', withSpec({ virtualization: '' }), 'invalid_field virtualization'],
    ['an unknown kind of virtualization', withSpec({ virtualization: 'xen' }), 'invalid_field virtualization'],
    ['a tag with a space', withSpec({ tags: ['a b'] }), 'invalid_field tags'],
    [
      'a firewall with an unknown action',
      { ...request, firewall: Firewall.fromPartial({ enabled: true, defaultAction: 'MAYBE' }) },
      'invalid_field firewall.default_action',
    ],
    [
      'a backup schedule with an impossible time',
      { ...request, backupSchedule: BackupScheduleChange.fromPartial({ time: '24:00' }) },
      'invalid_field backup_schedule.time',
    ],
    ['user data for a container', withSpec({ userData: '#!/bin/sh' }), 'unsupported user_data'],
    [
      'user data of more than 64 KiB',
      withSpec({ virtualization: 'kvm', userData: 'x'.repeat(65_537) }),
      'invalid_field user_data',
    ],
    ['a limit of 0 processors', withLimits({ vcpuMilli: 0 }), 'invalid_field vcpu'],
    ['a memory size of NaN', withLimits({ ramMb: NaN }), 'invalid_field ram_mb'],
    ['a fraction as disk size', withLimits({ diskGb: 1.5 }), 'invalid_field disk_gb'],
    ['a network rate that is too high', withLimits({ networkUpMbps: 1e6 }), 'invalid_field network_up_mbps'],
    ['257 IPv4 addresses', withSpec({ ipv4Count: 257 }), 'invalid_field ipv4_count'],
    ['an incomplete IPv6 address', withSpec({ ipv6Count: 0.5 }), 'invalid_field ipv6_count'],
    ['a host name as address', withSpec({ publicIpv4s: ['host'] }), 'invalid_field public_ipv4s'],
    ['an IPv6 address as IPv4', withSpec({ publicIpv4s: ['2001:db8::1'] }), 'invalid_field public_ipv4s'],
    [
      'an address that is listed twice',
      withSpec({ ipv6Addresses: ['2001:db8::1', '2001:DB8:0::1'] }),
      'invalid_field ipv6_addresses',
    ],
    ['an address followed by text', withSpec({ ipv6Addresses: ['::1; flush'] }), 'invalid_field ipv6_addresses'],
    ['an address with a zone', withSpec({ ipv6Addresses: ['fe80::1%eth0'] }), 'invalid_field ipv6_addresses'],
    ['a negative expiry time', withSpec({ expiresAtMs: -1 }), 'invalid_field expires_at'],
    ['an expiry time that is too late', withSpec({ expiresAtMs: 1e15 }), 'invalid_field expires_at'],
    ['a negative quota', withTraffic({ monthlyGb: -1 }), 'invalid_field monthly_traffic_gb'],
    ['a reset of the traffic count on day 32', withTraffic({ resetDay: 32 }), 'invalid_field traffic_reset_day'],
    ['an unknown traffic action', withTraffic({ action: 'of tomorrow' }), 'invalid_field traffic_action'],
    ['an unknown traffic mode', withTraffic({ mode: 'of tomorrow' }), 'invalid_field traffic_mode'],
    ['a host name as host_ip', withMapping({ hostIp: 'localhost' }), 'invalid_field host_ip'],
    [
      'a port range that ends before it begins',
      withMapping({ containerPortEnd: 21 }),
      'invalid_field container_port_end',
    ],
    [
      'port ranges of different lengths',
      withMapping({ containerPortEnd: 30, hostPort: 20000, hostPortEnd: 20001 }),
      'invalid_field host_port_end',
    ],
    ['an unknown protocol', withMapping({ protocol: 'sctp' }), 'invalid_field protocol'],
    ['the port 65536', withMapping({ hostPort: 65_536 }), 'invalid_field host_port'],
    ['a description of two lines', withMapping({ description: 'a\u2028b' }), 'invalid_field description'],
    ['port mappings without NAT', withSpec({ assignNat: false }), 'invalid_field port_mappings'],
    [
      'more than 1000 port mappings',
      withSpec({ portMappings: Array.from({ length: 1001 }, () => spec.portMappings[0]!) }),
      'invalid_field port_mappings',
    ],
    ['a request without a login', withSpec({ sshAuthMode: '' }), 'invalid_field ssh_auth_mode'],
    ['a weak password', withSpec({ sshAuthMode: 'password', sshPassword: 'abcdefgh' }), 'invalid_field ssh_password'],
    [
      'a password of two lines',
      withSpec({ sshAuthMode: 'password', sshPassword: 'abcdef1\nroot:x1' }),
      'invalid_field ssh_password',
    ],
    [
      'a login with two SSH keys',
      withSpec({ sshAuthMode: 'key', sshPublicKey: `${ed25519}\n${ed25519}` }),
      'invalid_field ssh_public_key',
    ],
    [
      'an SSH key with options',
      withSpec({ sshAuthMode: 'key', sshPublicKey: `command="x" ${ed25519}` }),
      'invalid_field ssh_public_key',
    ],
    [
      'an SSH key whose content has another key type than its first word',
      withSpec({
        sshAuthMode: 'key',
        sshPublicKey: ed25519.replace('ed25519 ', 'rsa ').replace('ssh-rsa', 'ssh-rsa'),
      }),
      'invalid_field ssh_public_key',
    ],
  ] as const)
    it(`refuses ${name}`, () => expect(codeOf(bad)).to.equal(code))

  it('refuses control characters in every text field', () => {
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
