import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SystemdMachine } from '../host/systemd-machine.js'

/*
 * Builds Berth's packages for amd64 and publishes them like a provider does.
 */

const run = (...words: [string, ...string[]]) => runIn('.', ...words)

const runIn = (cwd: string, ...words: [string, ...string[]]) =>
  execFileSync(words[0], words.slice(1), { cwd, stdio: ['ignore', 'ignore', 'inherit'] })

export class Repository {
  /** @param directory a scratch directory for keys, packages and the repository */
  constructor(private readonly directory: string) {}

  get #packages(): string {
    return join(this.directory, 'packages')
  }

  get keys(): string {
    return join(this.directory, 'keys')
  }

  /** The published repository. */
  get path(): string {
    return join(this.directory, 'repository')
  }

  /**
   * Builds packages and adds them to the published ones.
   * @param version in the form of Debian's versions
   * @param checkout of another version. Default: this one
   */
  publish(version: string, checkout = '.'): void {
    rmSync(this.#packages, { recursive: true, force: true })
    runIn(checkout, 'scripts/package', '--arch', 'amd64', '--output', this.#packages, '--package-version', version)
    if (!existsSync(this.keys)) run('scripts/repository', 'keys', this.keys)
    this.sign()
  }

  /** Publishes the present packages once more, with the present keys. */
  sign(): void {
    run('scripts/repository', 'publish', this.path, '--keys', this.keys, '--packages', this.#packages)
  }

  /** Makes the machine install packages from a copy of the published repository. Its other sources are removed. */
  addTo(machine: SystemdMachine): void {
    const target = join(machine.root, 'srv/repository')
    rmSync(target, { recursive: true, force: true })
    cpSync(this.path, target, { recursive: true })
    mkdirSync(join(machine.root, 'usr/share/keyrings'), { recursive: true })
    cpSync(join(this.path, 'berth.gpg'), join(machine.root, 'usr/share/keyrings/berth.gpg'))
    writeFileSync(join(machine.root, 'etc/apt/sources.list.d/berth.sources'), source)
    for (const other of ['sources.list', 'sources.list.d/ubuntu.sources', 'sources.list.d/debian.sources'])
      rmSync(join(machine.root, 'etc/apt', other), { force: true })
    machine.run('apt-get', 'update')
  }
}

const source =
  'Types: deb\nURIs: file:/srv/repository\nSuites: stable\nComponents: main\nSigned-By: /usr/share/keyrings/berth.gpg\n'

/** A bridge of this host between the machines of a test. */
export const testBridge = (name: string) => ({
  name,
  create(): void {
    this.remove()
    run('ip', 'link', 'add', name, 'type', 'bridge')
    run('ip', 'link', 'set', name, 'up')
  },
  remove(): void {
    try {
      execFileSync('ip', ['link', 'delete', name], { stdio: 'ignore' })
    } catch {
      // The bridge does not exist.
    }
  },
})
