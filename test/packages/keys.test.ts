import { expect } from 'chai'
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { scratchDirectory } from '../support/scratch.js'

/*
 * Tests how apt on this machine treats the keys of the repository. apt uses directories and lists of the test instead
 * of those of the machine. The packages are empty, because only their signatures matter.
 */

const gpg = ['--batch', '--quiet', '--no-tty', '--pinentry-mode', 'loopback', '--passphrase', '']

describe('a client of the package repository', function () {
  this.timeout(600_000)

  const scratch = scratchDirectory('btest-keys')
  const place = (...names: string[]) => join(scratch.path, ...names)
  const [keys, packages, repository, keyring] = ['keys', 'packages', 'repository', 'client.gpg'].map((name) =>
    place(name),
  ) as [string, string, string, string]

  before(() => {
    for (const directory of ['apt/lists/partial', 'apt/cache/archives/partial', 'apt/parts', 'packages'])
      mkdirSync(place(directory), { recursive: true })
    for (const name of ['berth', 'berth-agent', 'berth-runtime']) buildEmptyPackage(name)
    repositoryCommand('keys', keys)
    publish()
    writeFileSync(place('sources.list'), `deb [signed-by=${keyring}] file:${repository} stable main\n`)
  })
  beforeEach(() => {
    cpSync(join(keys, 'berth.gpg'), keyring)
    rmSync(place('apt/lists'), { recursive: true })
    mkdirSync(place('apt/lists/partial'), { recursive: true })
  })
  after(() => scratch.wipe())

  function buildEmptyPackage(name: string): void {
    const tree = place('tree', name)
    mkdirSync(join(tree, 'DEBIAN'), { recursive: true })
    const architecture = name === 'berth' ? 'all' : 'amd64'
    const fields = `Package: ${name}\nVersion: 1.0.0\nArchitecture: ${architecture}\nMaintainer: x\nDescription: x\n`
    writeFileSync(join(tree, 'DEBIAN/control'), fields)
    execFileSync('dpkg-deb', ['-b', tree, packages], { stdio: 'ignore' })
  }

  function repositoryCommand(...words: string[]): void {
    execFileSync('scripts/repository', words, { stdio: ['ignore', 'ignore', 'inherit'] })
  }

  const publish = (): void => repositoryCommand('publish', repository, '--keys', keys, '--packages', packages)

  /** Runs apt-get update as a client does. Returns its output, and whether it accepted the repository. */
  function update(): { accepted: boolean; output: string } {
    const options = {
      'Dir::Etc::SourceList': place('sources.list'),
      'Dir::Etc::SourceParts': place('apt/parts'),
      'Dir::State::lists': place('apt/lists'),
      'Dir::Cache': place('apt/cache'),
      'APT::Architecture': 'amd64',
      'APT::Sandbox::User': 'root',
    }
    const words = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`])
    const { status, stdout, stderr } = spawnSync('apt-get', [...words, '-o', 'APT::Update::Error-Mode=any', 'update'], {
      encoding: 'utf8',
    })
    return { accepted: status === 0, output: stdout + stderr }
  }

  function changeFile(name: string, change: (text: string) => string): () => void {
    const file = join(repository, name)
    const text = readFileSync(file, 'latin1')
    writeFileSync(file, change(text), 'latin1')
    return () => writeFileSync(file, text, 'latin1')
  }

  it('accepts the repository with its public key', () => {
    const { accepted, output } = update()
    expect(accepted, output).to.equal(true)
  })

  it('rejects the repository if it has only the key of another provider', () => {
    const other = place('other')
    repositoryCommand('keys', other)
    cpSync(join(other, 'berth.gpg'), keyring)
    const { accepted, output } = update()
    expect(accepted).to.equal(false)
    expect(output).to.match(/NO_PUBKEY|not signed|Missing key/)
  })

  it('rejects a list of packages that was changed after it was signed', () => {
    const restore = changeFile('dists/stable/main/binary-amd64/Packages.gz', () => 'other bytes')
    const plain = changeFile('dists/stable/main/binary-amd64/Packages', (text) => text.replace('1.0.0', '9.0.0'))
    const { accepted, output } = update()
    restore()
    plain()
    expect(accepted).to.equal(false)
    expect(output).to.match(/Hash Sum mismatch|unexpected size/)
  })

  it('rejects an InRelease file that was changed after it was signed', () => {
    const restore = changeFile('dists/stable/InRelease', (text) => text.replace('Origin: Berth', 'Origin: Other'))
    const { accepted, output } = update()
    restore()
    expect(accepted).to.equal(false)
    expect(output).to.match(/BADSIG|invalid|Bad/i)
  })

  describe('after the keys were rotated', () => {
    let former: Buffer

    before(() => {
      former = readFileSync(join(keys, 'berth.gpg'))
      repositoryCommand('rotate', keys)
      publish()
    })

    it('accepts the repository with the former public key', () => {
      writeFileSync(keyring, former)
      const { accepted, output } = update()
      expect(accepted, output).to.equal(true)
    })

    it('accepts the repository with the new public key', () => {
      const { accepted, output } = update()
      expect(accepted, output).to.equal(true)
    })

    it('finds the new public key in the package from the gateways', () => {
      const file = execFileSync('sh', ['-c', `ls -t ${packages}/berth-repository_*.deb`], { encoding: 'utf8' }).trim()
      const contained = execFileSync('sh', [
        '-c',
        `dpkg-deb --fsys-tarfile '${file}' | tar -xO ./usr/share/keyrings/berth.gpg`,
      ])
      expect(contained.equals(readFileSync(join(keys, 'berth.gpg')))).to.equal(true)
    })
  })

  describe('after the keys have expired', () => {
    it('rejects the repository', () => {
      const home = join(keys, 'root')
      const run = (...words: string[]) =>
        execFileSync('gpg', [...gpg, ...words], { env: { ...process.env, GNUPGHOME: home }, encoding: 'buffer' })
      const fingerprint = /^fpr:+([0-9A-F]+):/m.exec(run('--with-colons', '--list-keys').toString())![1]!
      run('--quick-set-expire', fingerprint, 'seconds=1', '*')
      execFileSync('sleep', ['2'])
      writeFileSync(keyring, run('--export', fingerprint))
      execFileSync('gpgconf', ['--kill', 'gpg-agent'], { env: { ...process.env, GNUPGHOME: home } })
      const { accepted, output } = update()
      expect(accepted).to.equal(false)
      expect(output).to.match(/EXPKEYSIG|expired/i)
    })
  })
})
