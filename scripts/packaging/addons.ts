import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'

export type Architecture = 'amd64' | 'arm64'

const require = createRequire(import.meta.url)
const nodeGyp = join(dirname(require.resolve('node-gyp/package.json')), 'bin/node-gyp.js')

const compilers: Readonly<Record<Architecture, { arch: string; prefix: string }>> = {
  amd64: { arch: 'x64', prefix: 'x86_64-linux-gnu' },
  arm64: { arch: 'arm64', prefix: 'aarch64-linux-gnu' },
}

/**
 * Compiles the addon of an npm package for the Node.js whose headers are in `nodeDirectory`. If an earlier call has
 * already compiled it, that result is used.
 * @returns the path of the compiled addon
 */
export function compileAddon(
  name: string,
  addon: string,
  { architecture, nodeDirectory, cache }: { architecture: Architecture; nodeDirectory: string; cache: string },
): string {
  const { version } = require(`${name}/package.json`) as { version: string }
  const target = join(cache, `${addon}-${version}-${architecture}-${nodeDirectory.split('/').at(-1)}.node`)
  if (existsSync(target)) return target
  const sources = resolve(cache, `${addon}-${architecture}`)
  rmSync(sources, { recursive: true, force: true })
  mkdirSync(cache, { recursive: true })
  cpSync(join('node_modules', name), sources, { recursive: true, filter: (path) => !path.endsWith('/build') })
  const { arch } = compilers[architecture]
  const rebuild = [nodeGyp, 'rebuild', '--release', `--arch=${arch}`, `--nodedir=${resolve(nodeDirectory)}`]
  execFileSync(process.execPath, rebuild, {
    cwd: sources,
    env: compilerEnvironment(architecture, sources),
    stdio: 'pipe',
  })
  renameSync(join(sources, 'build/Release', `${addon}.node`), target)
  rmSync(sources, { recursive: true })
  return target
}

/** Returns an environment that keeps the build's path out of the addon, so that equal sources give equal files. */
function compilerEnvironment(architecture: Architecture, sources: string): NodeJS.ProcessEnv {
  const { prefix } = compilers[architecture]
  const flags = `-ffile-prefix-map=${sources}=. -g0`
  return { ...process.env, CC: `${prefix}-gcc`, CXX: `${prefix}-g++`, CFLAGS: flags, CXXFLAGS: flags }
}
