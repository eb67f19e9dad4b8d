import type { Logger } from 'pino'
import type { GatewayConfig } from '../config.js'
import type { FleetAuthority } from '../pki/fleet-authority.js'
import type { ListeningSockets } from '../sockets/listening-sockets.js'
import { Installer, type InstallHosts } from './installer.js'
import { pinOf } from './join-key.js'
import { JoinServer, type JoinServerOptions } from './join-server.js'
import { planCommand } from './plan-command.js'

export interface JoinEndpointOptions extends Pick<JoinServerOptions, 'privateKeyPem' | 'join' | 'joinGateway'> {
  readonly config: Pick<GatewayConfig, 'join_listen' | 'join_address' | 'packages_dir'>
  readonly authority: FleetAuthority
  readonly leafLifetimeMs: number
  readonly version: string
  readonly hosts: InstallHosts
  readonly log: Logger
  readonly sockets: ListeningSockets | undefined
}

/** The endpoint at which hosts and gateways join, with its address and the installer of agents. */
export class JoinEndpoint {
  readonly #installer: Installer
  #server: JoinServer | undefined

  constructor(private readonly options: JoinEndpointOptions) {
    const { config, authority, version, hosts } = options
    this.#installer = new Installer({
      packages: config.packages_dir,
      address: () => this.address,
      authority,
      version,
      hosts,
    })
  }

  async open(): Promise<void> {
    const { authority, config, log } = this.options
    const server = (this.#server = await JoinServer.start(config.join_listen, {
      ...this.options,
      installer: this.#installer,
    }))
    authority.onSwitch(() => server.renew())
    if (/^(0\.0\.0\.0|\[::\]):/.test(this.address))
      log.warn({ address: this.address }, 'join_address is not set: only agents on this machine can join')
  }

  /** Waits up to `graceMs` for requests in progress, and then aborts them. */
  async close(graceMs: number): Promise<void> {
    await this.#server?.close(graceMs)
  }

  /** host:port at which agents connect to join. */
  get address(): string {
    const { join_address, join_listen } = this.options.config
    if (join_address) return join_address
    return join_listen.endsWith(':0') ? join_listen.slice(0, -1) + this.#server!.port : join_listen
  }

  /** Creates the command that installs the agent on a host and joins it. */
  async installCommand(token: string): Promise<string> {
    const hasPackages = await this.#installer.isAvailable()
    return planCommand({ address: this.address, pin: pinOf(this.options.privateKeyPem), token, hasPackages })
  }

  /** Returns the version of the agent in this gateway's packages. @throws {BerthError} `packages_missing` */
  packagedVersion(): Promise<string> {
    return this.#installer.agentVersion()
  }
}
