import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import { statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { composeInstallScript } from '../../gateway/join/install-script.js'
import { scratchDirectory } from '../support/scratch.js'

/* Tests functions of the installation script (gateway/join/install). */

const { path, wipe } = scratchDirectory('btest-install-script')
const script = composeInstallScript('gateway/join/install')
const [listedDigest, lock] = ['listed_digest', 'lock'].map(
  (name) => new RegExp(`^${name}\\(\\) \\{\\n(?:.*\\n)*?\\}$`, 'm').exec(script)![0],
)

const begin = '-----BEGIN PGP SIGNED MESSAGE-----'
const signed = 'Origin: Berth\nSHA256:\n aaaa 100 Packages\n bbbb 200 berth.gpg\n'
const signature = '-----BEGIN PGP SIGNATURE-----\n\nc2lnbmF0dXJl\n-----END PGP SIGNATURE-----\n'
const added = 'SHA256:\n cccc 300 berth.gpg\n cccc 300 Packages\n'

describe('the digests that the installation script reads from InRelease', () => {
  after(wipe)

  // apt ignores text outside of the signed part of InRelease. A gateway could add digests there that nobody has signed.
  function digestOf(file: string, list: string): string {
    writeFileSync(join(path, 'InRelease'), list)
    return execFileSync('sh', ['-c', `next=$1\n${listedDigest}\nlisted_digest "$2"`, 'sh', path, file], {
      encoding: 'utf8',
    }).trim()
  }

  it('are those of the signed text', () => {
    const list = `${begin}\nHash: SHA512\n\n${signed}${signature}`
    expect([digestOf('Packages', list), digestOf('berth.gpg', list)]).to.deep.equal(['aaaa', 'bbbb'])
  })

  for (const [place, list] of [
    ['before the signed message', `${added}${begin}\nHash: SHA512\n\n${signed}${signature}`],
    ['among the headers of the message', `${begin}\n${added}Hash: SHA512\n\n${signed}${signature}`],
    ['among the headers, after a line that only contains a space', `${begin}\n \n${added}\n${signed}${signature}`],
  ] as const)
    it(`are not read from text added ${place}`, () => {
      expect(digestOf('berth.gpg', list)).to.equal('')
    })

  it('are not read from the signature or from text after the signature', () => {
    const unsigned = signed.replace(/ bbbb.*\n/, '')
    const list = `${begin}\nHash: SHA512\n\n${unsigned}${signature.replace('c2ln', `${added}c2ln`)}${added}`
    expect(digestOf('berth.gpg', list)).to.equal('')
  })
})

describe('the lock of the installation script', () => {
  const scratch = scratchDirectory('btest-install-lock')
  after(scratch.wipe)

  it('is a file that other users can neither create nor open', () => {
    const file = /^lock_file=(.*)$/m.exec(script)![1]!
    expect(statSync(dirname(file)).mode & 0o022).to.equal(0)
    const copy = join(scratch.path, 'lock')
    execFileSync('sh', ['-c', `lock_file=$1\n${lock}\nlock`, 'sh', copy])
    expect(statSync(copy).mode & 0o777).to.equal(0o600)
  })
})
