import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { runBuild } from '../support/packages/repository.js'
import { scratchDirectory } from '../support/scratch.js'

/*
 * Tests the packages for arm64 on an amd64 host: their contents, and their programs in QEMU's emulation of the
 * processor. The programs use the libraries of Debian's cross compiler, which builds the addons.
 */

const version = '0.9.1'
const libraries = '/usr/aarch64-linux-gnu'
/** Value of e_machine in the header of programs for arm64: elf(5). */
const arm64Machine = 183

describe('the packages for arm64', function () {
  this.timeout(3_600_000) // building takes minutes, and far longer on a busy machine

  const scratch = scratchDirectory('btest-arm64')
  const [packages, tree, emulator] = ['packages', 'tree', 'emulator'].map((name) => join(scratch.path, name)) as [
    string,
    string,
    string,
  ]
  const run = (...words: [string, ...string[]]): string =>
    execFileSync(words[0], words.slice(1), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })

  before(() => {
    runBuild('scripts/package', ['--arch', 'arm64', '--output', packages, '--package-version', version])
    for (const file of readdirSync(packages)) run('dpkg-deb', '-x', join(packages, file), tree)
    // The emulator is not installed, because its package would let this host's kernel run programs for arm64.
    mkdirSync(emulator)
    execFileSync('sh', ['-c', 'apt-get download -q qemu-user-static && dpkg-deb -x *.deb .'], { cwd: emulator })
  })
  after(() => scratch.wipe())

  /** Runs the packaged Node.js in the emulator. @returns its output */
  const node = (...args: string[]): string =>
    run(
      join(emulator, 'usr/bin/qemu-aarch64-static'),
      ...['-L', libraries, join(tree, 'usr/lib/berth/runtime/node'), ...args],
    ).trim()

  const program = (name: string): string => join(tree, 'usr/lib/berth', name)

  it('include agent, gateway and runtime, and declare their architecture', () => {
    const names = readdirSync(packages).map((file) => {
      expect(run('dpkg-deb', '-f', join(packages, file), 'Architecture').trim(), file).to.equal('arm64')
      return run('dpkg-deb', '-f', join(packages, file), 'Package').trim()
    })
    expect(names).to.have.members(['berth-agent', 'berth-gateway', 'berth-runtime'])
  })

  it('contain no compiled programs or addons for other architectures', () => {
    const machines = readdirSync(tree, { recursive: true, encoding: 'utf8' })
      .filter((name) => statSync(join(tree, name), { throwIfNoEntry: false })?.isFile())
      .map((name) => ({ name, content: readFileSync(join(tree, name)) }))
      .filter(({ content }) => content.subarray(0, 4).equals(Buffer.from('\x7fELF')))
      .map(({ name, content }) => [name.split('/').at(-1), content.readUInt16LE(18)])
    expect(machines.map(([, machine]) => machine)).to.deep.equal(machines.map(() => arm64Machine))
    expect(machines.map(([name]) => name)).to.have.members([
      'node',
      'pty.node',
      'linux-arm64.node',
      'argon2.linux-arm64-gnu.node',
    ])
  })

  it('contain a working Node.js of the version in packaging/runtime/node.json', () => {
    const wanted = JSON.parse(readFileSync('packaging/runtime/node.json', 'utf8')) as { version: string }
    expect(node('-p', '[process.version, process.arch].join()')).to.equal(`v${wanted.version},arm64`)
  })

  for (const name of ['agent', 'gateway'])
    it(`contain the ${name}, which reports its version`, () => {
      expect(node(join(program(name), `dist/${name}/main.js`), '--version')).to.include(version)
    })

  it('contain native addons for Node.js that can be loaded and used', () => {
    const [agent, gateway] = ['agent', 'gateway'].map((name) => join(program(name), 'package.json'))
    const script = `
      const { createRequire } = require('node:module')
      const [agent, gateway] = [${JSON.stringify(agent)}, ${JSON.stringify(gateway)}].map(createRequire)
      const Database = agent('better-sqlite3')
      const { verifySync, hashSync } = gateway('@node-rs/argon2')
      const row = new Database(':memory:').prepare('SELECT 6 * 7 AS answer').get()
      const isRight = verifySync(hashSync('secret', { memoryCost: 1024 }), 'secret')
      console.log([row.answer, isRight, typeof agent('node-pty').spawn].join())`
    expect(node('-e', script)).to.equal('42,true,function')
  })
})
