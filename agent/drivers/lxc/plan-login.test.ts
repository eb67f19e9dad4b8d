import { expect } from 'chai'
import { checkLogin, planFirstBoot } from './plan-login.js'

const machine = { hostname: 'web-1', resolvers: ['9.9.9.9', '2001:db8::1'] }
const passwordHash = `$6$salt$${'a'.repeat(86)}`

const named = [
  { kind: 'file', path: 'etc/hostname', mode: 0o644, content: 'web-1\n' },
  {
    kind: 'file',
    path: 'etc/hosts',
    mode: 0o644,
    content:
      '127.0.0.1 localhost\n127.0.1.1 web-1\n::1 localhost ip6-localhost ip6-loopback\n' +
      'ff02::1 ip6-allnodes\nff02::2 ip6-allrouters\n',
  },
]
const resolved = {
  kind: 'file',
  path: 'etc/resolv.conf',
  mode: 0o644,
  content: 'nameserver 9.9.9.9\nnameserver 2001:db8::1\n',
}

describe('the plan of the host name, resolvers and login of a container', () => {
  for (const [name, of, login, changes] of [
    [
      'a guest with a domain name',
      { ...machine, fqdn: 'web-1.example.com' },
      { keys: [] },
      [named[0]!, { ...named[1]!, content: named[1]!.content.replace('web-1', 'web-1.example.com web-1') }, resolved],
    ],
    ['a guest without a login', machine, { keys: [] }, [...named, resolved]],
    [
      'a guest without resolvers (it keeps the resolvers of the image)',
      { ...machine, resolvers: [] },
      { keys: [] },
      named,
    ],
    ['a password', machine, { passwordHash, keys: [] }, [...named, resolved, { kind: 'password', hash: passwordHash }]],
    [
      'an SSH key (it disables the password of the image)',
      machine,
      { keys: ['ssh-ed25519 AAAA me'] },
      [...named, resolved, { kind: 'key', content: 'ssh-ed25519 AAAA me\n' }, { kind: 'password', hash: '*' }],
    ],
  ] as const)
    it(`contains the changes for ${name}`, () => expect(planFirstBoot(of, login)).to.deep.equal(changes))

  it('rejects a hash that is not a valid field of /etc/shadow', () => {
    for (const bad of ['', `${passwordHash}:`, `${passwordHash}\n`, passwordHash.replace('a', '&')])
      expect(() => planFirstBoot(machine, { passwordHash: bad, keys: [] })).to.throw(/is not a single line/)
  })
})

describe('the check of the login and host name of a new container', () => {
  it('accepts any printable password', () => checkLogin(machine, { password: 'a:b$`"\'\\ cä' }))

  for (const [name, of, login] of [
    ['a newline in the password', machine, { password: 'a\nroot2:b' }],
    ['a NUL in the password', machine, { password: 'a\0' }],
    ['an empty password', machine, { password: '' }],
    ['a password of 251 characters', machine, { password: 'a'.repeat(251) }],
    ['two keys', machine, { publicKey: 'ssh-ed25519 A\nssh-ed25519 B' }],
    ['a carriage return in a key', machine, { publicKey: 'ssh-ed25519 A\r' }],
    ['an invalid host name', { ...machine, hostname: 'a b' }, {}],
    ['an invalid domain name', { ...machine, fqdn: 'a.b\n9.9.9.9 c' }, {}],
    ['an invalid resolver', { ...machine, resolvers: ['9.9.9.9\noptions x'] }, {}],
  ] as const)
    it(`refuses ${name}, and does not repeat the value in the error`, () => {
      expect(() => checkLogin(of, login))
        .to.throw(/is not a single line/)
        .with.property('message')
        .that.does.not.match(/root2|ssh-|aaa/)
    })
})
