import { gzipSync } from 'node:zlib'
import { expect } from 'chai'
import { planNetwork, planSeed, planUserData, type Instance } from './plan-seed.js'

const nic = {
  device: 'bt7',
  bridge: 'berth0',
  mac: 'be:be:0a:40:00:02',
  ipv4: '10.64.0.2',
  prefixLength: 16,
  gateway: '10.64.0.1',
  ipv6Addresses: [] as string[],
  gateway6: 'fe80::1',
}
const instance: Instance = { id: 'iid-1', passwordHash: '$6$salt$hash' }

interface Config {
  users: Record<string, unknown>[]
  ssh_pwauth?: boolean
  bootcmd?: string[][]
}

/** Returns the parts of a multipart text (RFC 2046), as far as these tests need it. */
function partsOf(text: string): { headers: string; body: string }[] {
  const boundary = /boundary="([^"]+)"/.exec(text)?.[1] ?? ''
  const middle = text.split(`--${boundary}--`)[0] ?? ''
  return middle
    .split(`--${boundary}\n`)
    .slice(1)
    .map((part) => ({ headers: part.split('\n\n')[0] ?? '', body: part.split('\n\n').slice(1).join('\n\n') }))
}

function ours(told: Instance): Config {
  const body = partsOf(planUserData(told)).at(-1)?.body ?? ''
  return JSON.parse(body.replace('#cloud-config\n', '')) as Config
}

describe('the planned cloud-init seed', () => {
  it('contains the files of NoCloud (JSON, except for the user data)', () => {
    const files = planSeed({ hostname: 'web', resolvers: ['9.9.9.9'], nic }, instance)
    expect(files.map(({ name }) => name)).to.deep.equal(['meta-data', 'network-config', 'user-data'])
    expect(JSON.parse(files[0]!.content)).to.deep.equal({ 'instance-id': 'iid-1', 'local-hostname': 'web' })
  })

  it('uses the guest’s domain name as its host name', () => {
    const [metadata] = planSeed({ hostname: 'web', fqdn: 'web.example.com', resolvers: [], nic }, instance)
    expect(JSON.parse(metadata!.content)).to.include({ 'local-hostname': 'web.example.com' })
  })
})

describe('the planned cloud-init network configuration', () => {
  it('identifies the interface by its MAC address, and includes the gateways', () => {
    const with6 = { ...nic, ipv6Addresses: ['2001:db8::1', '2001:db8::2'] }
    expect(planNetwork(with6, ['9.9.9.9', '1.1.1.1'])).to.deep.equal({
      version: 2,
      ethernets: {
        eth0: {
          match: { macaddress: 'be:be:0a:40:00:02' },
          'set-name': 'eth0',
          dhcp4: false,
          dhcp6: false,
          'accept-ra': false,
          'link-local': ['ipv6'],
          addresses: ['10.64.0.2/16', '2001:db8::1/128', '2001:db8::2/128'],
          gateway4: '10.64.0.1',
          gateway6: 'fe80::1',
          nameservers: { addresses: ['9.9.9.9', '1.1.1.1'], search: [] },
        },
      },
    })
  })

  it('contains no IPv6 gateway for a guest without an IPv6 address', () =>
    expect(JSON.stringify(planNetwork(nic, []))).to.not.contain('gateway6'))
})

describe('the planned cloud-init user data', () => {
  it('gives root either a password, or a key and no password', () => {
    expect(ours(instance)).to.deep.include({
      ssh_pwauth: true,
      users: [{ name: 'root', lock_passwd: false, hashed_passwd: '$6$salt$hash' }],
    })
    const withKey = ours({ id: 'iid-1', publicKey: 'ssh-ed25519 AAAA me' })
    expect(withKey.users).to.deep.equal([
      { name: 'root', lock_passwd: false, hashed_passwd: '*', ssh_authorized_keys: ['ssh-ed25519 AAAA me'] },
    ])
    expect(withKey).to.not.have.property('ssh_pwauth')
  })

  it('contains a command that sets a changed password only once', () => {
    const reset = { serial: 'ab12', passwordHash: '$6$new$hash' }
    expect(ours({ ...instance, reset }).bootcmd).to.deep.equal([
      ['cloud-init-per', 'once', 'berth-password-ab12', 'usermod', '-p', '$6$new$hash', 'root'],
    ])
  })

  for (const [what, userData, type] of [
    ['a cloud-config', '#cloud-config\nruncmd: [[ls]]\n', 'text/cloud-config'],
    ['a script', '#!/bin/sh\necho\n', 'text/x-shellscript'],
    ['a cloud-config archive', '#cloud-config-archive\n- "#!/bin/sh"\n', 'text/cloud-config-archive'],
    ['text that contains the MIME boundary', '--BERTH-SEED--\n\n--BERTH-SEED\n', 'text/plain'],
    ['text with quotes, NUL and Chinese characters', '"\'\0\u2028漢\n\n\r', 'text/plain'],
    ['64 KiB of text', 'x'.repeat(65_536), 'text/plain'],
  ] as const)
    it(`puts the unchanged user data of the customer first if they are ${what}`, () => {
      const parts = partsOf(planUserData({ ...instance, userData }))
      expect(parts).to.have.length(2)
      expect(parts[0]?.headers).to.contain(`Content-Type: ${type};`)
      expect(Buffer.from(parts[0]?.body ?? '', 'base64').toString()).to.equal(userData)
      expect(parts[1]?.body).to.match(/^#cloud-config\n\{"merge_how"/)
    })

  it('contains each part of a customer’s MIME message with its headers and content', () => {
    const script = '#!/bin/sh\r\necho ä\r\n'
    const gzip = gzipSync(script).toString('base64')
    const userData =
      'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="BERTH-SEED"\n\n' +
      `--BERTH-SEED\nContent-Type: text/x-shellscript; charset=utf-8\nMerge-Type:\n list()\n\n${script}\n` +
      `--BERTH-SEED\nContent-Type: application/gzip\nContent-Transfer-Encoding: base64\n\n${gzip}\n--BERTH-SEED--\n`
    const parts = partsOf(planUserData({ ...instance, userData }))
    expect(parts).to.have.length(3)
    expect(parts[0]?.headers).to.match(/^Content-Type: text\/x-shellscript; charset=utf-8\nMerge-Type: list\(\)\n/)
    expect(parts[1]?.headers).to.match(/^Content-Type: text\/x-shellscript\n/)
    for (const { body } of parts.slice(0, 2)) expect(Buffer.from(body, 'base64').toString()).to.equal(script)
  })
})
