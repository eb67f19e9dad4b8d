import { expect } from 'chai'
import { planConfigDrive } from './plan-config-drive.js'

const machine = {
  uuid: '9941445d-d693-42e3-83ee-3eb4cbf41972',
  hostname: 'desk-1',
  resolvers: ['9.9.9.9'],
  nic: {
    device: 'bt7',
    bridge: 'berth0',
    mac: 'be:be:0a:40:00:02',
    ipv4: '10.64.0.2',
    prefixLength: 20,
    gateway: '10.64.0.1',
    ipv6Addresses: ['2001:db8::7'],
    gateway6: 'fe80::1',
  },
}
const instance = { id: 'iid-1', password: 'p"w\\1', userData: '<powershell>"x"</powershell>' }

describe('the config drive for Windows', () => {
  const files = new Map(planConfigDrive(machine, instance).map(({ name, content }) => [name, content]))
  const read = (name: string): unknown => JSON.parse(files.get(`openstack/latest/${name}`) ?? '')

  it('contains the host name, the administrator and a password with any characters', () =>
    expect(read('meta_data.json')).to.deep.equal({
      uuid: 'iid-1',
      hostname: 'desk-1',
      name: 'desk-1',
      launch_index: 0,
      admin_pass: 'p"w\\1',
      meta: { admin_username: 'Administrator' },
    }))

  it('contains the addresses and their gateways', () =>
    expect(read('network_data.json')).to.deep.equal({
      links: [{ id: 'eth0', type: 'phy', ethernet_mac_address: 'be:be:0a:40:00:02', mtu: 1500 }],
      networks: [
        {
          id: 'ipv4',
          type: 'ipv4',
          link: 'eth0',
          ip_address: '10.64.0.2',
          netmask: '255.255.240.0',
          services: [{ type: 'dns', address: '9.9.9.9' }],
          routes: [{ network: '0.0.0.0', netmask: '0.0.0.0', gateway: '10.64.0.1' }],
        },
        {
          id: 'ipv6-0',
          type: 'ipv6',
          link: 'eth0',
          ip_address: '2001:db8::7',
          netmask: '128',
          services: [{ type: 'dns', address: '9.9.9.9' }],
          routes: [{ network: '::', netmask: '0', gateway: 'fe80::1' }],
        },
      ],
      services: [{ type: 'dns', address: '9.9.9.9' }],
    }))

  it('contains the customer’s user data unchanged, and omits the file for user data if there are none', () => {
    expect(files.get('openstack/latest/user_data')).to.equal(instance.userData)
    const names = planConfigDrive(machine, { id: 'iid-2' }).map(({ name }) => name)
    expect(names).to.deep.equal(['openstack/latest/meta_data.json', 'openstack/latest/network_data.json'])
  })
})
