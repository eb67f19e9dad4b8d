import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SystemdMachine } from '../host/systemd-machine.js'
import { runBuild, type Repository } from './repository.js'

const run = (...words: [string, ...string[]]): string =>
  execFileSync(words[0], words.slice(1), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })

/** Replaces the packages that a gateway serves to its hosts, as a broken release or an attacker would. */
export class ServedPackages {
  constructor(
    private readonly repository: Repository,
    private readonly scratch: string,
  ) {}

  /**
   * Serves the published packages of a version.
   * @param change called with the directory of the packages, to change them before they are signed
   * @param keys directory of the keys that sign the packages; by default those of the repository
   */
  serve(
    gateway: SystemdMachine,
    version: string,
    { change, keys = this.repository.keys }: { change?: (packages: string) => void; keys?: string } = {},
  ): void {
    const [packages, published] = [join(this.scratch, 'served'), join(this.scratch, 'served-repository')]
    for (const directory of [packages, published]) rmSync(directory, { recursive: true, force: true })
    this.#copy(version, packages)
    change?.(packages)
    runBuild('scripts/repository', ['publish', published, '--keys', keys, '--packages', packages])
    run('dpkg-deb', '-x', join(packages, `berth-repository_${version}_all.deb`), join(packages, 'tree'))
    const target = join(gateway.root, 'usr/share/berth/packages')
    rmSync(target, { recursive: true, force: true })
    cpSync(join(packages, 'tree/usr/share/berth/packages'), target, { recursive: true })
  }

  #copy(version: string, packages: string): void {
    const pool = join(this.repository.path, 'pool')
    mkdirSync(packages)
    for (const file of readdirSync(pool)) {
      const isWanted = file.startsWith('berth-runtime_') || file.includes(`_${version}_`)
      if (isWanted && !file.startsWith('berth-repository_')) cpSync(join(pool, file), join(packages, file))
    }
  }
}

/** Creates keys of another publisher. @returns their directory */
export function createForeignKeys(scratch: string): string {
  const keys = join(scratch, 'foreign-keys')
  run('scripts/repository', 'keys', keys)
  return keys
}

/** Replaces the agent in a directory of packages by a program that ends at once. */
export function breakAgent(packages: string): void {
  const broken = "console.error('berth-agent: this version is broken')\nprocess.exitCode = 1\n"
  changeAgent(packages, (agent) => writeFileSync(join(agent, 'main.js'), broken))
}

/** Changes the agent in a directory of packages, so that agents of other versions cannot read its journal. */
export function raiseJournal(packages: string): void {
  const since = /^var readableSince = \d+;$/m
  changeAgent(packages, (agent) => {
    const file = readdirSync(agent).find((name) => name.endsWith('.js') && since.test(readText(join(agent, name))))!
    const raised = "migrations.push('CREATE TABLE raised (x ANY) STRICT');\nvar readableSince = migrations.length;"
    writeFileSync(join(agent, file), readText(join(agent, file)).replace(since, raised))
  })
}

const readText = (file: string): string => readFileSync(file, 'utf8')

/** Changes the package berth-agent in a directory of packages. @param change called with the directory of the program */
function changeAgent(packages: string, change: (agent: string) => void): void {
  const file = readdirSync(packages).find((name) => name.startsWith('berth-agent_'))!
  const tree = join(packages, 'agent')
  run('dpkg-deb', '-R', join(packages, file), tree)
  change(join(tree, 'usr/lib/berth/agent/dist/agent'))
  run('dpkg-deb', '--root-owner-group', '-b', tree, join(packages, file))
  rmSync(tree, { recursive: true })
}
