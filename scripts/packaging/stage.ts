import { chmodSync, cpSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { completionScript } from '../../cli/completion/scripts.js'
import { manualFile } from '../../cli/manual/manual-page.js'
import { composeInstallScript } from '../../gateway/join/install-script.js'
import { compileAddon, type Architecture } from './addons.js'
import { unpackPackage, type PublishedPackage } from './fetch.js'

/* Creates source trees for Debian's packaging tools: the files of a package, and its directory `debian`. */

export interface StageOptions {
  readonly architecture: Architecture
  /** Directory of Node.js with its headers, as unpacked from npm. */
  readonly nodeDirectory: string
  readonly cache: string
  readonly version: string
  /** Time in debian/changelog in seconds since 1970. All files get this time. */
  readonly epoch: number
}

const runtime = '/usr/lib/berth/runtime/node'
const programOf = (name: string): string => `/var/lib/berth/programs/${name}/dist/${name}/main.js`

/** npm packages that each program loads from outside its bundle. `stageSqlite` adds a newer better-sqlite3. */
const unbundled = {
  agent: ['node-pty'],
  gateway: ['@node-rs/argon2', 'swagger-ui-dist'],
  cli: [],
} as const

export function stageRuntime(directory: string, { nodeDirectory, version, epoch }: StageOptions): void {
  copyDebian('packaging/runtime/debian', directory)
  cpSync(join(nodeDirectory, 'bin/node'), join(directory, 'node'))
  cpSync('packaging/runtime/stage-program', join(directory, 'stage-program'))
  cpSync(join(nodeDirectory, 'LICENSE'), join(directory, 'debian/copyright'))
  writeChangelog(directory, 'berth-runtime', version, epoch)
}

export function stageBerth(directory: string, options: StageOptions): void {
  copyDebian('packaging/berth/debian', directory)
  stageProgram(directory, 'agent', ['agent'], options.version)
  stageProgram(directory, 'gateway', ['gateway', 'panel'], options.version)
  stageProgram(directory, 'cli', ['cli'], options.version)
  stageCli(directory)
  stageInstallation(join(directory, 'agent/dist/agent'))
  stageTerminals(join(directory, 'agent/node_modules'), options)
  stageSqlite(join(directory, 'agent/node_modules'), options)
  stagePasswords(join(directory, 'gateway/node_modules'), options)
  cpSync('packaging/berth/bin', join(directory, 'bin'), { recursive: true })
  cpSync('monitoring', join(directory, 'monitoring'), { recursive: true })
  stageUnits(directory)
  writeChangelog(directory, 'berth', options.version, options.epoch)
}

function copyDebian(source: string, directory: string): void {
  cpSync(source, join(directory, 'debian'), { recursive: true })
  chmodSync(join(directory, 'debian/rules'), 0o755)
}

function stageProgram(
  directory: string,
  name: keyof typeof unbundled,
  parts: readonly string[],
  version: string,
): void {
  const target = join(directory, name)
  const filter = (path: string): boolean =>
    !path.endsWith('.map') && !/\/(deps|src|build|prebuilds|third_party|typings|\.npmignore)$/.test(path)
  for (const part of parts) cpSync(join('dist', part), join(target, 'dist', part), { recursive: true, filter })
  for (const module of unbundled[name])
    cpSync(join('node_modules', module), join(target, 'node_modules', module), { recursive: true, filter })
  writeFileSync(join(target, 'package.json'), `${JSON.stringify({ name: `berth-${name}`, version, type: 'module' })}\n`)
}

/** Adds the completions and the manual page of the command line under the names that shells and man expect. */
function stageCli(directory: string): void {
  const target = join(directory, 'completions')
  mkdirSync(target)
  writeFileSync(join(target, 'berth'), completionScript('bash'))
  writeFileSync(join(target, '_berth'), completionScript('zsh'))
  writeFileSync(join(target, 'berth.fish'), completionScript('fish'))
  renameSync(join(directory, 'cli/dist/cli', manualFile), join(directory, manualFile))
}

/** Adds the script with which the agent installs another version of itself. An agent in a checkout does not need it. */
function stageInstallation(agent: string): void {
  mkdirSync(join(agent, 'upgrade'), { recursive: true })
  writeFileSync(join(agent, 'upgrade/install.sh'), composeInstallScript('gateway/join/install'))
}

function stageTerminals(modules: string, options: StageOptions): void {
  const target = join(modules, 'node-pty/build/Release/pty.node')
  mkdirSync(dirname(target), { recursive: true })
  cpSync(compileAddon('node-pty', 'pty', options), target)
  chmodSync(target, 0o755)
}

/**
 * Adds version 13 of better-sqlite3, compiled for Node.js 24. A checkout uses version 12 with Node.js 20. Node.js 24.19
 * and newer would crash with version 12 at the garbage collection of a prepared statement.
 */
function stageSqlite(modules: string, { architecture, cache }: StageOptions): void {
  const published = JSON.parse(readFileSync('packaging/berth/sqlite.json', 'utf8')) as PublishedPackage
  const unpacked = join(cache, `${published.package}-${published.version}`)
  unpackPackage(published, unpacked)
  const addon = `prebuilds/linux-${architecture === 'amd64' ? 'x64' : 'arm64'}.node`
  for (const part of ['lib', 'package.json', 'LICENSE', addon])
    cpSync(join(unpacked, part), join(modules, 'better-sqlite3', part), { recursive: true })
  chmodSync(join(modules, 'better-sqlite3', addon), 0o755)
}

/** Adds the compiled part of argon2, which is a separate npm package for each architecture. */
function stagePasswords(modules: string, { architecture, cache }: StageOptions): void {
  const name = `@node-rs/argon2-linux-${architecture === 'amd64' ? 'x64' : 'arm64'}-gnu`
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as LockFile
  const { version, integrity } = packages[`node_modules/${name}`]!
  const unpacked = join(cache, `argon2-${version}-${architecture}`)
  unpackPackage({ package: name, version, integrity }, unpacked)
  cpSync(unpacked, join(modules, name), { recursive: true })
}

interface LockFile {
  readonly packages: Readonly<Record<string, { version: string; integrity: string }>>
}

/** The runtime stores compiled code of the gateway in this directory, so that the gateway starts faster. */
const cacheLines = `CacheDirectory=berth/gateway
CacheDirectoryMode=0700
Environment=NODE_COMPILE_CACHE=%C/berth/gateway
`

/** Copies the units and example configurations, and replaces paths of a checkout with paths of the packages. */
function stageUnits(directory: string): void {
  for (const unit of ['berth-agent', 'berth-gateway', 'berth-guests']) {
    const text = readFileSync(`systemd/${unit}.service`, 'utf8')
      .replace(
        /\/usr\/bin\/node \/opt\/berth\/dist\/(agent|gateway)\/main\.js/,
        (_, name: string) => `${runtime} ${programOf(name)}`,
      )
      .replace(/^Documentation=.*\n/m, '')
      .replace(/^(?=ExecStart=.*\/gateway\/)/m, `${cacheLines}ExecStartPre=+/usr/lib/berth/gateway/initialise\n`)
      .replace(
        /^(?=ExecStart=.*\/(agent|gateway)\/main\.js)/m,
        (_, name: string) => `ExecStartPre=+/usr/lib/berth/runtime/stage-program ${name}\n`,
      )
    writeFileSync(join(directory, 'debian', `${unit === 'berth-gateway' ? unit : 'berth-agent'}.${unit}.service`), text)
  }
  cpSync('systemd/agent.example.yaml', join(directory, 'agent.yaml'))
  const gateway = readFileSync('systemd/gateway.example.yaml', 'utf8')
  writeFileSync(
    join(directory, 'gateway.yaml'),
    gateway.replace('/usr/bin/redis-server', '/usr/lib/berth/gateway/bin/redis-server'),
  )
}

function writeChangelog(directory: string, source: string, version: string, epoch: number): void {
  const date = new Date(epoch * 1000).toUTCString().replace('GMT', '+0000')
  const text = `${source} (${version}) stable; urgency=medium\n\n  * CHANGELOG.md of the sources lists the changes.\n\n -- Berth <packages@berth.invalid>  ${date}\n`
  writeFileSync(join(directory, 'debian/changelog'), text)
}
