import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { GuestNetwork, NatMapping } from '../../../agent/network/contract.js'
import { guestPrefix6, hostAddress, type NetworkLab } from '../network/network-lab.js'
import { prepareSshd } from '../host/sftp-server.js'

/* Traffic of guests for tests of the abuse monitor, and the client's servers at 65,536 addresses. */

const workloads = fileURLToPath(new URL('./workloads.py', import.meta.url))
export interface Case {
  readonly name: string
  readonly work: Work
  readonly guest?: Partial<GuestNetwork>
  readonly mapping?: NatMapping
  /** Requests that the client sends to the guest. */
  readonly client?: Work
}

export type Work = readonly [program: string, ...args: string[]]
export const python = (...args: string[]): Work => ['/usr/bin/python3', workloads, ...args]
export const shell = (text: string): Work => ['/bin/sh', '-c', text]
export const nmap = (...args: string[]): Work => ['nmap', '-n', '-Pn', '--max-retries', '0', '-T4', ...args]

export function mapping(protocol: 'tcp' | 'udp', hostPort: number, containerPort: number): NatMapping {
  return { protocol, hostIp: '', hostPort, hostPortEnd: hostPort, containerPort }
}

/** Cases of ordinary traffic that lasts for a number of seconds. */
export const honest = (seconds: number): readonly Case[] => [
  {
    name: 'a crawler with some dead links',
    work: python('crawl', '198.19.6', '200', '198.19.202', '15', String(seconds)),
  },
  {
    name: 'requests of a load balancer, 2,000 a second',
    work: python('web_clients', '198.19.11.11', '8080', '20', '2000', String(seconds)),
  },
  {
    name: 'connections of an application to its database, 500 a second',
    work: python('fetch', '198.19.7.7', '5432', '500', String(seconds)),
  },
  { name: 'a resolver with many servers', work: python('resolve', '198.19.8', '200', '40', String(seconds)) },
  {
    name: 'a torrent with 300 offline peers',
    work: python('peers', '198.19.203', '300', String(seconds)),
  },
  {
    name: 'a node that searches for peers, most of which are offline',
    work: python('node', '198.19.205', '8333', '2', String(seconds)),
  },
  {
    name: 'a check of machines, one of which is down',
    work: python('monitor', '198.19.9.9', '198.19.204.4', String(seconds)),
  },
  {
    name: 'commands on 50 machines',
    work: shell(`exec ${python('log_in', '198.19.10', '50', '1', String(seconds)).join(' ')} ssh $SSH`),
  },
  {
    name: 'mail of a mail server',
    work: python('mail', '198.19.4.5', '0.4', String(seconds)),
    guest: { sendsMail: true },
  },
  {
    name: 'datagrams of a stream, 100 Mbit/s',
    work: python('stream', '198.19.12.12', '5004', '100', String(seconds)),
  },
  {
    name: 'a VPN with a download, 20 Mbit/s',
    work: python('tunnel', '1194'),
    mapping: mapping('udp', 21_194, 1194),
    client: python('download', hostAddress, '21194', '20', String(seconds)),
  },
  {
    name: 'a proxy that requires a password',
    work: python('socks', '1080', '2'),
    mapping: mapping('tcp', 22_080, 1080),
    client: python('knock', hostAddress, '22080', '2', String(seconds)),
  },
]

export const servers = ['tcp,198.19.3.3,21', 'tcp,198.19.4.4,25', 'tcp,198.19.5.5,9876']
export const onlyOurPool = { mining: { pools: ['pool.example'] } }

/** Gives the client 65,536 IPv4 addresses and two IPv6 networks. Half of the addresses and one network never answer. */
export function silenceHalf(lab: NetworkLab): void {
  lab.in(lab.client, 'ip', 'route', 'add', 'local', '198.19.0.0/16', 'dev', 'lo')
  for (const network of ['2001:db8:98::/64', '2001:db8:99::/64'])
    lab.in(lab.client, 'ip', '-6', 'route', 'add', 'local', network, 'dev', 'lo')
  lab.in(lab.client, 'sysctl', '-qw', 'net.ipv4.icmp_ratelimit=0', 'net.ipv6.icmp.ratelimit=0')
  lab.in(lab.client, 'sysctl', '-qw', 'net.ipv4.icmp_msgs_per_sec=10000')
  const drop = (match: string): string => `add rule inet silent input ${match} drop`
  const rules = [
    'add table inet silent',
    'add chain inet silent input { type filter hook input priority 0; }',
    drop('ip daddr 198.19.128.0/17'),
    drop('ip6 daddr 2001:db8:98::/64'),
  ]
  lab.in(lab.client, 'nft', rules.join('; '))
}

export function makeServers(lab: NetworkLab, directory: string): void {
  lab.run(lab.client, ...webServer(directory))
  lab.run(lab.client, ...python('sink', '5004'))
  for (const [name, port] of [
    ['login', '21'] as const,
    ['smtp', '25'] as const,
    ['web', '80'] as const,
    ['web', '5432'] as const,
    ['pool', '9876'] as const,
    ['names', '53'] as const,
  ])
    lab.run(lab.client, ...python(name, port))
  for (const name of ['host', 'user'])
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(directory, name)])
  const options = {
    HostKey: join(directory, 'host'),
    AuthorizedKeysFile: join(directory, 'user.pub'),
    PermitRootLogin: 'yes',
    StrictModes: 'no',
    UsePAM: 'no',
    PidFile: 'none',
    MaxStartups: '100',
    SetEnv: 'SHLVL=2', // at shell level 2, bash skips .bashrc, which may do anything
    KexAlgorithms: '+diffie-hellman-group14-sha1,diffie-hellman-group1-sha1',
    Ciphers: '+aes128-cbc,3des-cbc',
  }
  const given = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`])
  prepareSshd()
  lab.run(lab.client, '/usr/sbin/sshd', '-D', '-f', '/dev/null', '-p', '22', ...given)
}

/** Uses nginx, which needs little CPU time for thousands of answers per second. */
function webServer(directory: string): Work {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${directory}/nginx-${kind};`,
  )
  const config = `daemon off; user root; worker_processes 1; pid ${directory}/nginx.pid; error_log ${directory}/nginx.log;
events {}
http {
  access_log off;
  ${temporary.join(' ')}
  server { listen 8080; location / { return 200 hello; } }
}
`
  writeFileSync(join(directory, 'nginx.conf'), config)
  return ['/usr/sbin/nginx', '-c', join(directory, 'nginx.conf')]
}

export function withSsh([program, ...args]: Work, directory: string): Work {
  const options =
    `-q -i ${join(directory, 'user')} -o BatchMode=yes -o StrictHostKeyChecking=no ` +
    `-o UserKnownHostsFile=/dev/null -o ConnectTimeout=5`
  return [program, ...args.map((arg) => arg.replaceAll('$SSH', options))]
}

/** Makes a guest with an IPv6 address for each case. @returns the guests by the names of the cases */
export function guestsOf(lab: NetworkLab, cases: readonly Case[]): Map<string, GuestNetwork> {
  return new Map(
    cases.map(({ name, guest = {}, mapping }, index) => {
      const ipv6Addresses = [`${guestPrefix6}${(index + 16).toString(16)}`]
      return [name, lab.guest(index + 11, mapping ? [mapping] : [], { ipv6Addresses, ...guest })]
    }),
  )
}

/** Starts the traffic of each guest, and the requests of the client to the guest. */
export function begin(
  lab: NetworkLab,
  cases: readonly Case[],
  { guests, directory }: { guests: ReadonlyMap<string, GuestNetwork>; directory: string },
): void {
  for (const { name, work, client } of cases) {
    lab.run(lab.namespaceOf(guests.get(name)!), ...withSsh(work, directory))
    if (client) lab.run(lab.client, ...shell(`sleep 1; exec ${client.join(' ')}`))
  }
}
