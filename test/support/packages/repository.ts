import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import type { SystemdMachine } from '../host/systemd-machine.js'
import { documented } from './documented.js'

/* This file builds Berth's packages for amd64 and publishes them as a provider does. */

const run = (...words: [string, ...string[]]) =>
  execFileSync(words[0], words.slice(1), { stdio: ['ignore', 'ignore', 'inherit'] })

/** Runs a script that builds packages. A lock prevents concurrent runs, because they would use one directory. */
export function runBuild(script: string, args: readonly string[], checkout = '.'): void {
  const lock = resolve(`node_modules/.${basename(script)}.lock`)
  execFileSync('flock', [lock, script, ...args], { cwd: checkout, stdio: ['ignore', 'ignore', 'inherit'] })
}

/** Lets a test run documented apt-get commands: apt-get answers yes and keeps changed configuration files. */
export function answerYes(machine: SystemdMachine): void {
  const file = join(machine.root, 'etc/apt/apt.conf.d/90test')
  writeFileSync(file, 'APT::Get::Assume-Yes "true";\nDpkg::Options { "--force-confold"; };\n')
}

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
    runBuild('scripts/package', ['--arch', 'amd64', '--output', this.#packages, '--package-version', version])
    this.sign()
  }

  /** Adds the built packages of another directory to the published ones. */
  publishFrom(directory: string): void {
    rmSync(this.#packages, { recursive: true, force: true })
    cpSync(directory, this.#packages, { recursive: true })
    this.sign()
  }

  /** Publishes the same packages again, with the current keys. */
  sign(): void {
    if (!existsSync(this.keys)) run('scripts/repository', 'keys', this.keys)
    runBuild('scripts/repository', ['publish', this.path, '--keys', this.keys, '--packages', this.#packages])
  }

  /** Makes a copy of the published repository the only package source of a machine. */
  addTo(machine: SystemdMachine): void {
    this.copyTo(machine)
    mkdirSync(join(machine.root, 'usr/share/keyrings'), { recursive: true })
    cpSync(join(this.path, 'berth.gpg'), join(machine.root, 'usr/share/keyrings/berth.gpg'))
    writeFileSync(join(machine.root, 'etc/apt/sources.list.d/berth.sources'), source)
    machine.run('apt-get', 'update')
  }

  /** Copies the published repository to a machine, and removes package sources that the machine cannot reach. */
  copyTo(machine: SystemdMachine): void {
    const target = join(machine.root, 'srv/repository')
    rmSync(target, { recursive: true, force: true })
    cpSync(this.path, target, { recursive: true })
    for (const other of ['sources.list', 'sources.list.d/ubuntu.sources', 'sources.list.d/debian.sources'])
      rmSync(join(machine.root, 'etc/apt', other), { force: true })
  }

  /**
   * Returns the documented commands that add the repository to a machine and install the package berth. They use the
   * machine's copy of the repository.
   */
  installation(): string {
    return documented('docs/packages.md', 'apt-get install berth').replaceAll(
      'https://REPOSITORY',
      'file:///srv/repository',
    )
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

/**
 * Describes a bridge of this host that connects the machines of a test.
 * @param subnet the network of the machines if the test itself must reach them, for example 10.213.8.0/24
 */
export const testBridge = (name: string, subnet?: string) => ({
  name,
  create(): void {
    this.remove()
    run('ip', 'link', 'add', name, 'type', 'bridge')
    run('ip', 'link', 'set', name, 'up')
    if (subnet === undefined) return
    run('ip', 'address', 'add', subnet.replace(/0\/24$/, '254/24'), 'dev', name)
    // Drops the packets of the test if the bridge is deleted. They would otherwise leave this machine.
    run('ip', 'route', 'replace', 'blackhole', subnet, 'metric', '4096')
  },
  /** Removes the bridge and its route, if they exist. */
  remove(): void {
    spawnSync('ip', ['link', 'delete', name])
    if (subnet !== undefined) spawnSync('ip', ['route', 'delete', 'blackhole', subnet, 'metric', '4096'])
  },
})
