// Builds the Debian packages: scripts/package [--output DIR] [--arch LIST]
import { Command } from 'commander'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Architecture } from './addons.js'
import { unpackPackage, type PublishedPackage } from './fetch.js'
import { stageBerth, stageRuntime, type StageOptions } from './stage.js'
import { packageVersion } from './version.js'

const architectures: readonly Architecture[] = ['amd64', 'arm64']
/** Directory for intermediate files. It is below node_modules, which the checks of the sources skip. */
const cache = 'node_modules/.cache/berth-packages'

/** The content of packaging/runtime/node.json. */
type NodeRelease = Readonly<Record<Architecture, Omit<PublishedPackage, 'version'>>> & {
  readonly version: string
  /** Revision of the package. Raise it when the package changes without a new version of Node.js. */
  readonly revision: number
  /** Time of all files in seconds since 1970. It is fixed, so that every build has the same content. */
  readonly epoch: number
}

const {
  output,
  arch,
  packageVersion: givenVersion,
} = new Command('scripts/package')
  .description('builds the Debian packages of Berth')
  .option('--output <directory>', 'where to put the packages', 'build')
  .option('--arch <list>', 'architectures, separated by commas', architectures.join())
  .option('--package-version <version>', 'default: derived from the tag and the commits since it')
  .parse()
  .opts<{ output: string; arch: string; packageVersion?: string }>()

const git = (...args: string[]): string => {
  try {
    return execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return ''
  }
}

function derivedVersion(): string {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
  const commits = `${git('rev-list', '--count', 'HEAD')}.g${git('rev-parse', '--short=9', 'HEAD')}`
  return packageVersion(git('describe', '--tags', '--long', '--match', 'v*'), version, commits)
}

function buildFor(architecture: Architecture, version: string, epoch: number): void {
  const node = JSON.parse(readFileSync('packaging/runtime/node.json', 'utf8')) as NodeRelease
  const nodeDirectory = join(cache, `node-${node.version}-${architecture}`)
  unpackPackage({ ...node[architecture], version: node.version }, nodeDirectory)
  const options: StageOptions = { architecture, nodeDirectory, cache, version, epoch }
  const runtimeVersion = `${node.version}-${node.revision}`
  buildRuntime({ ...options, version: runtimeVersion, epoch: node.epoch })
  build('berth', stageBerth, options, output)
}

/** Builds berth-runtime, or takes it from the cache if its sources are unchanged, because its build takes long. */
function buildRuntime(options: StageOptions): void {
  const kept = join(cache, `runtime-${digestOf(['packaging/runtime', 'scripts/packaging'])}-${options.architecture}`)
  if (!existsSync(kept)) {
    const fresh = `${kept}.new`
    rmSync(fresh, { recursive: true, force: true })
    mkdirSync(fresh)
    build('runtime', stageRuntime, options, fresh)
    renameSync(fresh, kept)
  }
  copyPackages(kept, output)
}

/** Returns a digest of the names and contents of all files in these directories. */
function digestOf(directories: readonly string[]): string {
  const hash = createHash('sha256')
  for (const directory of directories)
    for (const entry of readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort()) {
      const path = join(directory, entry)
      hash.update(`${path}\0`)
      if (statSync(path).isFile()) hash.update(readFileSync(path))
    }
  return hash.digest('hex').slice(0, 16)
}

function build(
  name: string,
  stage: (directory: string, options: StageOptions) => void,
  options: StageOptions,
  target: string,
): void {
  const parent = resolve(cache, 'source', options.architecture, name)
  rmSync(parent, { recursive: true, force: true }) // packages of earlier versions must not be published
  stage(join(parent, 'source'), options)
  const kind = options.architecture === 'amd64' ? '--build=binary' : '--build=any'
  const args = [kind, '--no-sign', '--no-check-builddeps', `--host-arch=${options.architecture}`]
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(options.epoch), DEB_BUILD_OPTIONS: 'nodoc noautodbgsym' }
  execFileSync('dpkg-buildpackage', args, { cwd: join(parent, 'source'), env, stdio: ['ignore', 'ignore', 'inherit'] })
  copyPackages(parent, target)
}

function copyPackages(source: string, target: string): void {
  for (const file of readdirSync(source).filter((entry) => entry.endsWith('.deb'))) {
    cpSync(join(source, file), join(target, file), { preserveTimestamps: true })
    if (target === output) console.log(join(target, file))
  }
}

const version = givenVersion ?? derivedVersion()
const epoch = Number(process.env['SOURCE_DATE_EPOCH'] ?? git('log', '-1', '--format=%ct'))
mkdirSync(output, { recursive: true })
for (const architecture of arch.split(',') as Architecture[]) {
  if (!architectures.includes(architecture))
    throw new RangeError(`--arch: ${architecture} must be one of ${architectures.join(', ')}`)
  buildFor(architecture, version, epoch)
}
