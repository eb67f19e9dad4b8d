import type { Machine, MachineNic } from '../machine.js'
import type { Instance, SeedFile } from './plan-seed.js'

/** Name of the administrator of Windows in the metadata. It is the same for every language of Windows. */
export const windowsAdministrator = 'Administrator'

/** Data for the first boot. The password is in clear text, because cloudbase-init accepts no hash. */
type ToldInstance = Pick<Instance, 'id' | 'userData'> & { readonly password?: string }

/**
 * Plans the files of an OpenStack config drive, which cloudbase-init reads from a CD called `config-2`: host name,
 * password of the administrator, addresses. Windows gets no SSH keys.
 * Source: cloudbase-init.readthedocs.io, services; docs.openstack.org/nova, metadata
 */
export function planConfigDrive(
  machine: Pick<Machine, 'uuid' | 'hostname' | 'resolvers' | 'nic'>,
  { id, password, userData }: ToldInstance,
): SeedFile[] {
  const metadata = {
    uuid: id,
    hostname: machine.hostname,
    name: machine.hostname,
    launch_index: 0,
    ...(password === undefined ? {} : { admin_pass: password }),
    meta: { admin_username: windowsAdministrator },
  }
  const file = (name: string, content: string): SeedFile => ({ name: `openstack/latest/${name}`, content })
  return [
    file('meta_data.json', `${JSON.stringify(metadata)}\n`),
    file('network_data.json', `${JSON.stringify(planNetworkData(machine.nic, machine.resolvers))}\n`),
    ...(userData === undefined ? [] : [file('user_data', userData)]),
  ]
}

function planNetworkData(nic: MachineNic, resolvers: readonly string[]): unknown {
  const { mac, ipv4, gateway, ipv6Addresses, gateway6 } = nic
  const services = resolvers.map((address) => ({ type: 'dns', address }))
  const common = { link: 'eth0', services }
  return {
    links: [{ id: 'eth0', type: 'phy', ethernet_mac_address: mac, mtu: 1500 }],
    networks: [
      {
        id: 'ipv4',
        type: 'ipv4',
        ip_address: ipv4,
        netmask: netmaskOf(nic.prefixLength),
        ...common,
        routes: [{ network: '0.0.0.0', netmask: '0.0.0.0', gateway }],
      },
      ...ipv6Addresses.map((address, at) => ({
        id: `ipv6-${at}`,
        type: 'ipv6',
        ip_address: address,
        netmask: '128',
        ...common,
        routes: [{ network: '::', netmask: '0', gateway: gateway6 }],
      })),
    ],
    services,
  }
}

/** Returns the netmask as four numbers, for example 255.255.240.0. */
function netmaskOf(prefixLength: number): string {
  return [0, 8, 16, 24].map((at) => 256 - 2 ** (8 - Math.min(8, Math.max(0, prefixLength - at)))).join('.')
}
