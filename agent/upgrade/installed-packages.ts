import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { conflict } from '../../shared/errors.js'
import { writeFileAtomic } from '../../shared/files.js'
import { version } from '../../shared/version.js'
import { parsePackageVersion } from '../../shared/package-list.js'
import { run } from '../host/process/process.js'
import type { AgentPackages, UpgradeOrder } from './contract.js'

/** The installation script. It exists only in the package, not in a checkout (scripts/packaging/stage.ts). */
const script = join(import.meta.dirname, 'install.sh')
/** Directory to which the installation script has copied the packages. */
const packages = '/var/lib/berth/packages'
const unit = 'berth-upgrade'
/** Unit that continues an upgrade after a restart of the host (see gateway/join/install/return.sh). */
const resumeUnit = 'berth-upgrade-resume'
/** Time in seconds after which systemd ends an installation. */
const longestSeconds = 3600

/** Packages that the installation script of a gateway has installed. */
export class InstalledPackages implements AgentPackages {
  /** @param runDir directory that only root can enter */
  constructor(private readonly runDir: string) {}

  isSupported(): boolean {
    // False on a gateway's own host, because the operator upgrades the packages of gateway and agent together.
    return existsSync(script) && existsSync(join(packages, 'InRelease')) && !existsSync('/usr/lib/berth/gateway')
  }

  previousVersion(): string {
    const list = join(packages, 'previous/Packages')
    const found = existsSync(list) ? parsePackageVersion(readFileSync(list, 'utf8'), 'berth-agent') : ''
    // During a rollback, the running agent can already have the retained version. No previous version exists then.
    return found === version ? '' : found
  }

  async start(order: UpgradeOrder, authorityPem: string): Promise<void> {
    if (!this.isSupported())
      throw conflict(
        'upgrade_unsupported',
        'the gateway cannot upgrade the agent of this host: the agent was not installed with the packages of the gateway',
      )
    if (order.rollback && this.previousVersion() === '')
      throw conflict(
        'no_previous_version',
        'the agent cannot be rolled back: the host retains no packages of a previous version',
      )
    await refuseRunning()
    const directory = join(this.runDir, 'upgrade')
    await writeOrder(directory, order, authorityPem)
    const action = order.rollback ? '--rollback' : '--upgrade'
    await run('systemd-run', [...unitOptions, '--', '/bin/sh', script, action, directory])
  }
}

/** A separate unit survives the restart of the agent. systemd forgets the unit when it has ended. */
const unitOptions = [
  '--quiet',
  '--collect',
  `--unit=${unit}`,
  '--description=Berth: installs another version of the agent',
  `--property=RuntimeMaxSec=${longestSeconds}`,
]

async function refuseRunning(): Promise<void> {
  // Exit code 3: not active, 4: not known (systemctl(1)).
  const { stdout } = await run('systemctl', ['is-active', unit, resumeUnit], { okCodes: [0, 3, 4] })
  if (stdout.split('\n').some((state) => ['active', 'activating', 'deactivating'].includes(state)))
    throw conflict('upgrade_running', 'another version of the agent is being installed on this host')
}

/** The request is in files instead of arguments, because other users can read arguments, and the token is secret. */
async function writeOrder(directory: string, order: UpgradeOrder, authorityPem: string): Promise<void> {
  const content = { address: order.address, token: order.token, version: order.version, authority: authorityPem }
  for (const [name, text] of Object.entries(content)) await writeFileAtomic(join(directory, name), `${text.trim()}\n`)
}
