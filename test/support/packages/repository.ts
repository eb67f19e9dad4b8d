import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SystemdMachine } from '../host/systemd-machine.js'

/* Builds Berth's packages for amd64 and publishes them as a provider does. */

const run = (...words: [string, ...string[]]) =>
  execFileSync(words[0], words.slice(1), { stdio: ['ignore', 'ignore', 'inherit'] })

export class Repository {
  /** @param directory a scratch directory for keys, packages and the repository */
  constructor(private readonly directory: string) {}

  get #packages(): string {
    return join(this.directory, 'packages')
  }

  get keys(): string {
    return join(this.directory, 'keys')
  }

  /** Directory of the published repository. */
  get path(): string {
    return join(this.directory, 'repository')
  }

  /** Builds packages and adds them to the published ones. @param version in the form of Debian's versions */
  publish(version: string): void {
    rmSync(this.#packages, { recursive: true, force: true })
    run('scripts/package', '--arch', 'amd64', '--output', this.#packages, '--package-version', version)
    if (!existsSync(this.keys)) run('scripts/repository', 'keys', this.keys)
    this.sign()
  }

  /** Publishes the same packages again, with the current keys. */
  sign(): void {
    run('scripts/repository', 'publish', this.path, '--keys', this.keys, '--packages', this.#packages)
  }

  /** Makes a copy of the published repository the only package source of a machine. */
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

/** Makes the gateway of a machine serve the installation of hosts at this address, and restarts the gateway. */
export function serveHosts(machine: SystemdMachine, address: string): void {
  const settings = `s/^join_listen: .*/join_listen: 0.0.0.0:8081/; s/^join_address: .*/join_address: ${address}:8081/`
  machine.run('sed', '-i', settings, '/etc/berth/gateway.yaml')
  machine.run('systemctl', 'restart', 'berth-gateway')
}

/** Describes a bridge of this host that connects the machines of a test. */
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
      // There is nothing to remove: the bridge does not exist.
    }
  },
})
