import { expect } from 'chai'
import { PortMapping } from '../../../proto/gen/berth/agent/v1/guest.js'
import { planMappingChange } from '../guests/create/plan-mappings.js'
import { planSubUserMappings, refuseChosenSide } from './plan-sub-user-mappings.js'

const stored: PortMapping = {
  protocol: 'tcp',
  hostIp: '192.0.2.1',
  hostPort: 30_000,
  hostPortEnd: 30_004,
  containerPort: 80,
  containerPortEnd: 84,
  description: 'web',
}
const everyField = {
  ...({ protocol: 'tcp', host_ip: '192.0.2.1', host_port: 30_000, host_port_end: 30_004 } as const),
  ...({ container_port: 80, container_port_end: 84, description: 'web' } as const),
} as const

describe('a sub-user’s change of a port mapping', () => {
  const outcome = (work: () => object | void): unknown => {
    try {
      return work()
    } catch (error) {
      return (error as { field: string }).field
    }
  }
  const change = (body: Parameters<typeof planMappingChange>[0], innerOnly = false): unknown =>
    outcome(() => {
      const planned = planSubUserMappings(planMappingChange(body), stored, innerOnly)
      return Object.fromEntries(Object.entries(planned).filter(([, value]) => value !== undefined))
    })

  for (const [name, body, full, inner] of [
    ['can change the container port', { container_port: 8080 }, { containerPort: 8080 }, { containerPort: 8080 }],
    [
      'empties the description with full permission, and ignores an empty description without full permission',
      { description: '' },
      { description: '' },
      {},
    ],
    ['can change the description only with full permission', { description: 'x' }, { description: 'x' }, 'description'],
    ['can change the protocol only with full permission', { protocol: 'udp' }, { protocol: 'udp' }, 'protocol'],
    ['must not change the host port', { host_port: 30_001 }, 'host_port', 'host_port'],
    ['must not change the last host port', { host_port_end: 30_005 }, 'host_port_end', 'host_port_end'],
    ['must not change the host address', { host_ip: '192.0.2.2' }, 'host_ip', 'host_ip'],
    ['must not change the number of ports', { container_port_end: 85 }, 'container_port_end', 'container_port_end'],
    [
      'can contain all fields if only the container ports differ from the existing mapping',
      { ...everyField, container_port: 90, container_port_end: 94 },
      { containerPort: 90, protocol: 'tcp', description: 'web' },
      { containerPort: 90 },
    ],
    [
      'can contain empty host fields, which change nothing',
      { ...everyField, host_ip: '', host_port: 0, host_port_end: 0 },
      { containerPort: 80, protocol: 'tcp', description: 'web' },
      { containerPort: 80 },
    ],
  ] as const)
    it(name, () => {
      expect(change(body)).to.deep.equal(full)
      expect(change(body, true)).to.deep.equal(inner)
    })

  it('is rejected if the change contains a host port but the mapping does not exist', () => {
    expect(outcome(() => planSubUserMappings({ ...planMappingChange({ host_port: 1 }) }, undefined, false))).to.equal(
      'host_port',
    )
  })

  it('must not contain a host port or a host address if it adds a mapping', () => {
    const side = { hostIp: '', hostPort: 0, hostPortEnd: 0 }
    expect(outcome(() => refuseChosenSide(side))).to.equal(undefined)
    expect(outcome(() => refuseChosenSide({ ...side, hostPort: 1 }))).to.equal('host_port')
    expect(outcome(() => refuseChosenSide({ ...side, hostIp: '::1' }))).to.equal('host_ip')
  })
})
