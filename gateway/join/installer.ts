import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { BerthError, invalidField } from '../../shared/errors.js'
import { addLauncher, composeInstallScript } from './install-script.js'
import { upgradeSteps, type UpgradeStep } from './host-upgrade.js'
import type { Authority } from '../pki/authority.js'
import { splitHostPort } from '../../shared/join-token.js'
import { parsePackageVersion } from '../../shared/package-list.js'

/** A step in the installation of an agent, as the installation script reports it. */
export interface InstallReport {
  readonly step: 'checking' | 'installing' | 'joining' | 'waiting' | 'failed'
  /** Details, for example the reason of a failure. "": no details. */
  readonly message: string
  readonly atMs: number
}

/** A step of an upgrade, reported by the installation script. */
export interface UpgradeReport {
  readonly id: string
  readonly step: UpgradeStep
  readonly message: string
  readonly atMs: number
}

/** State of a host, as it is after the host's report was stored. */
export interface ReportedHost {
  readonly name: string
  readonly state: InstallAnswer['status']
  readonly address: string
  readonly description: { readonly version: string } | undefined
}

/** Access to the hosts of the fleet during an installation. */
export interface InstallHosts {
  /** Returns the host of a valid token, even if the token was used. @throws {BerthError} `join_token_invalid` */
  checkJoinToken(token: string): { readonly hostId: string; readonly upgradeId?: string }
  /** Stores a step of the installation, so that the API can show it. */
  reportInstall(hostId: string, report: InstallReport): Promise<ReportedHost>
  /** Stores a step of an upgrade, unless the upgrade has ended. */
  reportUpgrade(hostId: string, report: UpgradeReport): Promise<ReportedHost>
}

/** Answer to a report of the installation script. */
export interface InstallAnswer {
  readonly host: string
  /** `online`: the gateway has connected to the agent, and the installation is complete. */
  readonly status: 'pending' | 'online' | 'offline'
  /** Address as host:port at which the gateway connects to the agent. "": not known yet. */
  readonly address: string
  /** Version that the agent last reported to the gateway. "": the gateway was never connected to the agent. */
  readonly version: string
}

export interface InstallerOptions {
  /** Directory of a signed repository with the packages for hosts (`berth-repository`). */
  readonly packages: string
  /** Returns host:port at which hosts reach the join endpoint. */
  readonly address: () => string
  readonly authority: Pick<Authority, 'caPem'>
  readonly version: string
  readonly hosts: InstallHosts
}

const steps: readonly InstallReport['step'][] = ['checking', 'installing', 'joining', 'waiting', 'failed']
const maxMessage = 500

/** Installs the agent on new hosts: provides the script and the packages, and stores the progress that hosts report. */
export class Installer {
  constructor(private readonly options: InstallerOptions) {}

  /** True if the gateway has packages for hosts. */
  async isAvailable(): Promise<boolean> {
    return readFile(join(this.options.packages, 'InRelease')).then(
      () => true,
      () => false,
    )
  }

  /**
   * Returns the shell script that installs the agent. It is public and contains no secrets.
   * @throws {BerthError} `packages_missing`
   */
  async script(): Promise<string> {
    if (!(await this.isAvailable())) throw packagesMissing()
    const { address, authority, version } = this.options
    const { host, port } = splitHostPort(address())
    const shown = host.includes(':') ? `[${host}]` : host
    const values = { GATEWAY: `${shown}:${port}`, VERSION: version, AUTHORITY: authority.caPem.trim() }
    const parts = join(import.meta.dirname, 'install')
    const template = addLauncher(parts, composeInstallScript(parts))
    return template.replace(/@(GATEWAY|VERSION|AUTHORITY)@/g, (_, name: keyof typeof values) => values[name])
  }

  /**
   * Opens a file of the repository.
   * @param token valid join token of this gateway, even if it was used already
   * @throws {BerthError} `join_token_invalid`, `not_found`
   */
  async openPackage(token: string, name: string): Promise<{ size: number; content: Readable }> {
    this.options.hosts.checkJoinToken(token)
    if (!/^[A-Za-z0-9][A-Za-z0-9.+~_-]*$/.test(name)) throw new BerthError('not_found', 'not_found', 'not found')
    try {
      const file = await open(join(this.options.packages, name))
      return { size: (await file.stat()).size, content: file.createReadStream() }
    } catch (cause) {
      throw new BerthError('not_found', 'not_found', 'not found', { cause })
    }
  }

  /** Stores the step that an installation script reports. @throws {BerthError} `join_token_invalid`, `invalid_field` */
  async report({ token, step, message = '' }: Readonly<Record<string, unknown>>): Promise<InstallAnswer> {
    const { hostId, upgradeId } = this.options.hosts.checkJoinToken(String(token))
    if (typeof message !== 'string') throw invalidField('message', 'message: must be a string')
    const text = message.replaceAll(/[\p{Cc}\p{Cf}]/gu, ' ').slice(0, maxMessage)
    const report = { message: text, atMs: Date.now() }
    const { name, state, address, description } = await (upgradeId === undefined
      ? this.options.hosts.reportInstall(hostId, { ...report, step: parseStep(steps, step) })
      : this.options.hosts.reportUpgrade(hostId, { ...report, step: parseStep(upgradeSteps, step), id: upgradeId }))
    return { host: name, status: state, address, version: description?.version ?? '' }
  }

  /**
   * Version of the agent that the packages contain.
   * @throws {BerthError} `packages_missing`
   */
  async agentVersion(): Promise<string> {
    const list = await readFile(join(this.options.packages, 'Packages'), 'utf8').catch((): string => '')
    const version = parsePackageVersion(list, 'berth-agent')
    if (version === '' || !(await this.isAvailable())) throw packagesMissing()
    return version
  }
}

function parseStep<Step extends string>(known: readonly Step[], step: unknown): Step {
  const found = known.find((one) => one === step)
  if (found === undefined) throw invalidField('step', `step: must be one of ${known.join(', ')}`)
  return found
}

function packagesMissing(): BerthError {
  return new BerthError(
    'unavailable',
    'packages_missing',
    'this gateway offers no packages for hosts: install the package berth-repository on the machine of the gateway, or install the agent by hand',
  )
}
