import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { scratchDirectory } from '../test/support/scratch.js'
import { parseSshPublicKey, sshKeyFingerprint } from './ssh-public-key.js'

const string = (bytes: Buffer | string): Buffer => {
  const body = Buffer.from(bytes)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(body.length)
  return Buffer.concat([length, body])
}
const line = (type: string, ...fields: (Buffer | string)[]): string =>
  `${type} ${Buffer.concat([type, ...fields].map(string)).toString('base64')} me`

const outcomeOf = (key: string): string => {
  try {
    parseSshPublicKey(key)
    return 'accepted'
  } catch (error) {
    return (error as Error).message
  }
}

describe('the check of an SSH public key', () => {
  const { path: directory, wipe } = scratchDirectory(`btest-ssh-key-${process.pid}`)
  after(wipe)

  function generate(name: string, ...options: string[]): string {
    const file = join(directory, name)
    execFileSync('ssh-keygen', ['-q', '-N', '', '-C', 'me@example', '-f', file, ...options])
    return readFileSync(`${file}.pub`, 'utf8').trim()
  }
  /** True if OpenSSH itself can read the key. */
  function isKeyOfOpenSsh(key: string): boolean {
    return spawnSync('ssh-keygen', ['-l', '-f', '-'], { input: `${key}\n` }).status === 0
  }

  const blobOf = (key: string): Buffer => Buffer.from(key.split(' ')[1] ?? '', 'base64')
  const withBlob = (key: string, blob: Buffer): string => `${key.split(' ')[0]} ${blob.toString('base64')} me`

  for (const [name, ...options] of [
    ['ed25519', '-t', 'ed25519'],
    ['ecdsa-256', '-t', 'ecdsa', '-b', '256'],
    ['ecdsa-384', '-t', 'ecdsa', '-b', '384'],
    ['ecdsa-521', '-t', 'ecdsa', '-b', '521'],
    ['rsa-2048', '-t', 'rsa', '-b', '2048'],
    ['rsa-3072', '-t', 'rsa', '-b', '3072'],
  ] as const)
    it(`accepts an ${name} key of ssh-keygen, and refuses damaged copies of this key, as OpenSSH does`, () => {
      const key = generate(name, ...options)
      expect(parseSshPublicKey(`  ${key}\n`)).to.equal(key)
      expect(parseSshPublicKey(key.replaceAll(' ', ' \t '))).to.equal(key)
      const listed = execFileSync('ssh-keygen', ['-l', '-f', join(directory, `${name}.pub`)], { encoding: 'utf8' })
      expect(sshKeyFingerprint(key)).to.equal(listed.split(' ')[1])
      const blob = blobOf(key)
      const damaged: [string, string][] = [
        ['a missing byte', withBlob(key, blob.subarray(0, -1))],
        ['a missing half', withBlob(key, blob.subarray(0, blob.length / 2))],
        ['an added byte', withBlob(key, Buffer.concat([blob, Buffer.of(0)]))],
        ['a missing letter', key.replace(/ (\S{40})\S/, ' $1')],
        ['a line break in it', key.replace(/ (\S{40})/, ' $1\n')],
        ['a space in it', key.replace(/ (\S{40})/, ' $1 ')],
        ['a character that is not base64', key.replace(/ (\S{40})\S/, ' $1*')],
        ['only the type', key.split(' ')[0]!],
        ['another type', key.replace(/^\S+/, name === 'ed25519' ? 'ssh-rsa' : 'ssh-ed25519')],
        ['a length beyond its end', withBlob(key, Buffer.concat([Buffer.of(255, 255), blob.subarray(2)]))],
      ]
      for (const [what, copy] of damaged) {
        expect(isKeyOfOpenSsh(copy), `ssh-keygen: ${what}`).to.equal(false)
        expect(outcomeOf(copy), what).to.match(/^ssh_public_key: (is damaged|must|has no key data)/)
      }
    })

  it('accepts FIDO security keys only if they name an application', () => {
    const point = blobOf(generate('point', '-t', 'ecdsa', '-b', '256')).subarray(-65)
    const keys = (application: string): string[] => [
      line('sk-ssh-ed25519@openssh.com', Buffer.alloc(32, 7), application),
      line('sk-ecdsa-sha2-nistp256@openssh.com', 'nistp256', point, application),
    ]
    for (const key of keys('ssh:')) {
      expect(isKeyOfOpenSsh(key)).to.equal(true)
      expect(parseSshPublicKey(key)).to.equal(key)
    }
    for (const key of keys('')) expect(outcomeOf(key)).to.contain('application')
  })

  it('refuses ECDSA keys with a point outside the curve or a curve of another type', () => {
    const blob = blobOf(generate('curve', '-t', 'ecdsa', '-b', '256'))
    const moved = Buffer.concat([blob.subarray(0, -1), Buffer.of(blob.at(-1)! ^ 1)])
    const point = blob.subarray(-65)
    const type = 'ecdsa-sha2-nistp256'
    for (const key of [
      withBlob(`${type} x`, moved),
      line(type, 'nistp384', point),
      line(type, 'nistp256', Buffer.concat([Buffer.of(2), point.subarray(1, 33)])),
      line(type, 'nistp256', Buffer.of(0)),
    ]) {
      expect(isKeyOfOpenSsh(key)).to.equal(false)
      expect(outcomeOf(key)).to.contain('is damaged')
    }
  })

  it('refuses RSA keys that are short, negative, even or without an exponent', () => {
    const odd = Buffer.alloc(257, 0xab)
    odd[0] = 0
    const exponent = Buffer.of(1, 0, 1)
    expect(outcomeOf(line('ssh-rsa', exponent, odd))).to.equal('accepted')
    expect(outcomeOf(generate('rsa-1024', '-t', 'rsa', '-b', '1024'))).to.contain('has 1024 bits')
    for (const key of [
      line('ssh-rsa', exponent, odd.subarray(1)),
      line('ssh-rsa', exponent, Buffer.alloc(257)),
      line('ssh-rsa', exponent, Buffer.concat([odd.subarray(0, 256), Buffer.of(2)])),
      line('ssh-rsa', Buffer.of(), odd),
      line('ssh-rsa', Buffer.of(1), odd),
      line('ssh-rsa', Buffer.of(2), odd),
      line('ssh-rsa', exponent),
    ])
      expect(outcomeOf(key), key.slice(0, 60)).to.contain('is damaged')
  })

  it('explains the mistake if the input is something other than a public key', () => {
    const key = generate('other', '-t', 'ed25519')
    const file = join(directory, 'other')
    const rfc4716 = execFileSync('ssh-keygen', ['-e', '-f', `${file}.pub`]).toString()
    const pem = execFileSync('ssh-keygen', ['-e', '-m', 'PKCS8', '-f', join(directory, 'rsa-2048.pub')]).toString()
    const authority = generate('authority', '-t', 'ed25519')
    expect(authority).to.contain('ssh-ed25519')
    execFileSync('ssh-keygen', ['-q', '-s', join(directory, 'authority'), '-I', 'x', '-n', 'root', `${file}.pub`])
    const certificate = readFileSync(`${file}-cert.pub`, 'utf8').trim()
    for (const [what, sent, message] of [
      ['a private key', readFileSync(file, 'utf8'), /is a private key/],
      ['a private key of PuTTY', 'PuTTY-User-Key-File-3: ssh-ed25519\n', /is a private key/],
      ['the format of PuTTY and RFC 4716', rfc4716, /one-line format/],
      ['a PEM file', pem, /one-line format/],
      ['a certificate', certificate, /certificates are not accepted/],
      ['a DSA key', line('ssh-dss', Buffer.of(1)), /must begin with its type/],
      ['options', `command="id" ${key}`, /without options/],
      ['options after a tab', `restrict\t${key}`, /without options/],
      ['an authority', `cert-authority ${key}`, /without options/],
      ['two keys', `${key}\n${key}`, /one line/],
      ['a line separator', `${key}\u2028${key}`, /one line/],
      ['a carriage return', `${key}\rcommand`, /one line/],
      ['a NUL', `${key}\0`, /one line/],
      ['a key of another program', 'constructor AAAA', /must begin with its type/],
      ['nothing', '', /must begin with its type/],
      ['more than 16 KiB', `${key} ${'x'.repeat(16_384)}`, /at most 16384/],
    ] as const)
      expect(outcomeOf(sent), what).to.match(message)
  })
})
