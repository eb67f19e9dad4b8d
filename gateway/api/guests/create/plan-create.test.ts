import { expect } from 'chai'
import { createTimeFormat } from '../../../../shared/time.js'
import type { CreateBody } from './create-body.js'
import { planCreate } from './plan-create.js'

const base: CreateBody = { name: 'web', template_id: 'debian-12' }
const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHUkSXm9C1Cx4Vf0VbMT4KjEVxmeDbtC5VxY3l5a3tmk someone@somewhere'

const time = createTimeFormat('UTC')
const plan = (body: Partial<CreateBody> = {}): ReturnType<typeof planCreate> => planCreate({ ...base, ...body }, time)

const portsOf = (body: Partial<CreateBody>): [number, number, string][] =>
  plan(body).spec.portMappings.map((m) => [m.containerPort, m.hostPort, m.protocol])

describe('the plan of a Windows container', () => {
  const windows = (body: Partial<CreateBody>) => planCreate({ ...base, ...body }, time, 'windows').spec
  const ports = (body: Partial<CreateBody>): number[] =>
    windows(body).portMappings.map(({ containerPort }) => containerPort)

  it('maps the port of the remote desktop first', () => {
    expect(ports({ port_mapping_count: 2 })).to.deep.equal([3389, 0])
    expect(windows({}).portMappings[0]?.description).to.equal('RDP')
    const explicit = [{ container_port: 80 }, { container_port: 3389, host_port: 40_000 }]
    expect(ports({ nat_port_mappings: explicit })).to.deep.equal([3389, 80])
    expect(ports({ extra_ports: [22, 3389] })).to.deep.equal([3389, 22])
  })

  for (const [name, body, mode] of [
    [
      'the SSH mode "key", even with a public key',
      { ssh_auth_mode: 'key', ssh_public_key: publicKey },
      'auto_password',
    ],
    ['an invalid public key', { ssh_public_key: 'nonsense' }, 'auto_password'],
    [
      'a public key if the request also contains a password',
      { ssh_public_key: publicKey, ssh_password: 'S3cret-enough' },
      'password',
    ],
    ['the SSH mode "key" without a public key', { ssh_auth_mode: 'key' }, 'auto_password'],
  ] as const)
    it(`does not use ${name}`, () => {
      expect(windows(body)).to.include({ sshAuthMode: mode, sshPublicKey: '' })
    })
})

describe('the plan of a new container', () => {
  it('contains default values for missing fields', () => {
    const { spec } = plan()
    expect(spec.limits).to.include({ vcpuMilli: 1000, ramMb: 512, diskGb: 10, networkDownMbps: 0 })
    expect(spec).to.include({ assignNat: true, start: true, templateId: 'debian-12' })
    expect(spec.sshAuthMode).to.equal('auto_password')
  })

  it('accepts fractions of a processor', () => expect(plan({ vcpu: 0.5 }).spec.limits?.vcpuMilli).to.equal(500))

  for (const [name, body, ports] of [
    ['one automatic mapping to SSH by default', {}, [[22, 0, 'tcp']]],
    [
      'several automatic mappings: the first to SSH, all others to the port with the same number as their host port',
      { port_mapping_count: 3 },
      [
        [22, 0, 'tcp'],
        [0, 0, 'tcp'],
        [0, 0, 'tcp'],
      ],
    ],
    ['one automatic mapping to SSH if port_mapping_count is 0', { port_mapping_count: 0 }, [[22, 0, 'tcp']]],
    ['no mappings if NAT is off', { assign_nat: false }, []],
    [
      'no mappings if NAT is off and all lists of ports are empty',
      { assign_nat: false, port_mapping_count: 3, extra_ports: [], nat_port_mappings: [] },
      [],
    ],
    ['no mappings if NAT is off and extra_ports is not a list', { assign_nat: false, extra_ports: 3 }, []],
    ['no mappings to extra ports for empty entries of extra_ports', { extra_ports: ['', ' ', null] }, [[22, 0, 'tcp']]],
    [
      'mappings to extra ports after the mapping to SSH',
      { extra_ports: [80, 443] },
      [
        [22, 0, 'tcp'],
        [80, 0, 'tcp'],
        [443, 0, 'tcp'],
      ],
    ],
    [
      'one mapping to each extra port that is not mapped explicitly',
      {
        extra_ports: [80, 443, 22, 80, 8080],
        nat_port_mappings: [{ container_port: 8080, host_port: 25080 }],
      },
      [
        [22, 0, 'tcp'],
        [80, 0, 'tcp'],
        [443, 0, 'tcp'],
        [8080, 25080, 'tcp'],
      ],
    ],
    [
      'only one mapping to SSH if port 22 is also an extra port',
      { port_mapping_count: 0, extra_ports: [22] },
      [[22, 0, 'tcp']],
    ],
    [
      'a TCP mapping to an extra port even if an explicit mapping to this port uses UDP',
      { extra_ports: [53], nat_port_mappings: [{ container_port: 53, protocol: 'udp' }] },
      [
        [22, 0, 'tcp'],
        [53, 0, 'tcp'],
        [53, 0, 'udp'],
      ],
    ],
    ['no mappings to extra ports if extra_ports is not a list', { extra_ports: 'x' }, [[22, 0, 'tcp']]],
    [
      'explicit mappings after the mapping to SSH',
      { nat_port_mappings: [{ container_port: 53, host_port: 25053, protocol: 'udp' }] },
      [
        [22, 0, 'tcp'],
        [53, 25053, 'udp'],
      ],
    ],
    [
      'an explicit mapping to SSH instead of the automatic mapping',
      { nat_port_mappings: [{ container_port: 80 }, { container_port: 22, host_port: 25022 }] },
      [
        [22, 25022, 'tcp'],
        [80, 0, 'tcp'],
      ],
    ],
  ] as [string, Partial<CreateBody>, [number, number, string][]][])
    it(`contains ${name}`, () => expect(portsOf(body)).to.deep.equal(ports))

  it('treats 0 and empty values like missing fields', () => {
    const nothing: Partial<CreateBody> = {
      assign_ipv4: false,
      ipv4_count: 0,
      public_ipv4s: [],
      assign_ipv6: false,
      ipv6_count: 0,
      ipv6_addresses: [],
      expires_at: '',
      network_down_mbps: 0,
      io_speed_mbps: 0,
      traffic_mode: 'total',
      monthly_traffic_gb: 0,
      user_data: '',
      ssh_password: '',
      ssh_public_key: '',
    }
    expect(plan(nothing).spec).to.deep.equal(plan().spec)
  })

  it('ignores an invalid password or public key if the SSH mode does not use it', () => {
    const unused = { ssh_password: 'short', ssh_public_key: 'no key' }
    expect(plan({ ssh_auth_mode: 'auto_password', ...unused }).spec).to.deep.equal(plan().spec)
    const key = plan({ ssh_auth_mode: 'key', ssh_password: 'short', ssh_public_key: publicKey }).spec
    expect(key).to.include({ sshAuthMode: 'key', sshPassword: '' })
  })

  it('derives a missing SSH mode from the password or the public key', () => {
    expect(plan({ ssh_password: 'abcd1234', ssh_public_key: '' }).spec).to.include({
      sshAuthMode: 'password',
      sshPassword: 'abcd1234',
      sshPublicKey: '',
    })
    expect(plan({ ssh_public_key: publicKey }).spec).to.include({
      sshAuthMode: 'key',
      sshPassword: '',
      sshPublicKey: publicKey,
    })
  })

  for (const [name, body, counts] of [
    ['no addresses by default', {}, [0, 0]],
    [
      'one IPv4 and one IPv6 address if assign_ipv4 and assign_ipv6 are set',
      { assign_ipv4: true, assign_ipv6: true },
      [1, 1],
    ],
    ['one address if assign_ipv4 is set and ipv4_count is 0', { assign_ipv4: true, ipv4_count: 0 }, [1, 0]],
    ['as many addresses as ipv6_count says if assign_ipv6 is set', { assign_ipv6: true, ipv6_count: 3 }, [0, 3]],
    ['as many addresses as ipv4_count says even if assign_ipv4 is missing', { ipv4_count: 2 }, [2, 0]],
    [
      'no addresses if assign_ipv4 and assign_ipv6 are off, even if counts are sent',
      { assign_ipv4: false, ipv4_count: 2, assign_ipv6: false, ipv6_count: 1 },
      [0, 0],
    ],
    [
      'no addresses in addition to a list of addresses if assign_ipv4 is set',
      { assign_ipv4: true, public_ipv4s: ['192.0.2.9'] },
      [0, 0],
    ],
    [
      'as many addresses as ipv4_count says in addition to a list of addresses',
      { ipv4_count: 1, public_ipv4s: ['192.0.2.9'] },
      [1, 0],
    ],
  ] as [string, Partial<CreateBody>, number[]][])
    it(`requests ${name}`, () => {
      const { spec } = plan(body)
      expect([spec.ipv4Count, spec.ipv6Count]).to.deep.equal(counts)
      expect(spec.publicIpv4s).to.deep.equal(body.public_ipv4s ?? [])
    })

  for (const [name, body, rates] of [
    ['unlimited rates by default', {}, [0, 0, 0, 0]],
    [
      'the rate that is sent for one direction, and no limit for the other direction',
      { network_down_mbps: 100, io_write_mbps: 5 },
      [100, 0, 0, 5],
    ],
    ['the rates of the legacy fields for both directions', { network_bw_mbps: 50, io_speed_mbps: 7 }, [50, 50, 7, 7]],
    [
      'the rate for a direction instead of the rate of the legacy field',
      { network_bw_mbps: 50, network_up_mbps: 7 },
      [50, 7, 0, 0],
    ],
    [
      'the rate of the legacy field for a direction whose own rate is 0',
      { network_bw_mbps: 50, network_up_mbps: 0 },
      [50, 50, 0, 0],
    ],
    [
      'the rates of the two directions if the legacy field is 0',
      { io_speed_mbps: 0, io_read_mbps: 3, io_write_mbps: 0 },
      [0, 0, 3, 0],
    ],
  ] as [string, Partial<CreateBody>, number[]][])
    it(`uses ${name}`, () => {
      const { networkDownMbps, networkUpMbps, ioReadMbps, ioWriteMbps } = plan(body).spec.limits!
      expect([networkDownMbps, networkUpMbps, ioReadMbps, ioWriteMbps]).to.deep.equal(rates)
    })

  it('contains the traffic quota, the expiry date, and a mapping at a single host address', () => {
    const { spec } = plan({
      traffic_mode: 'in_out',
      traffic_in_gb: 5,
      traffic_action: 'throttle',
      traffic_reset_day: 15,
      expires_at: '2030-01-01',
      nat_port_mappings: [{ container_port: 80, container_port_end: 89, host_ip: '192.0.2.1' }],
    })
    expect(spec.traffic).to.deep.equal({
      mode: 'split',
      monthlyGb: 0,
      inGb: 5,
      outGb: 0,
      action: 'throttle',
      throttleMbps: 0,
      resetDay: 15,
    })
    expect(spec.expiresAtMs).to.equal(Date.parse('2030-01-01T23:59:59Z'))
    expect(spec.portMappings[1]).to.include({
      hostIp: '192.0.2.1',
      hostPort: 0,
      hostPortEnd: 0,
      containerPort: 80,
      containerPortEnd: 89,
    })
  })

  it('contains the public key without surrounding spaces', () =>
    expect(plan({ ssh_auth_mode: 'key', ssh_public_key: ` ${publicKey} ` }).spec.sshPublicKey).to.equal(publicKey))
})
