/** Request of a gateway to install another version of the agent. */
export interface UpgradeOrder {
  /** host:port of the gateway's join endpoint. */
  readonly address: string
  /** Join token of the gateway. It authorizes the download of packages and the report of the result. */
  readonly token: string
  readonly version: string
  /** True: installs the retained packages of the previous version. */
  readonly rollback: boolean
}

export interface AgentPackages {
  /** True if the gateway installed the agent on this host, and can therefore upgrade it. */
  isSupported(): boolean
  /** Version that a rollback would install; "" if no rollback is possible. */
  previousVersion(): string
  /**
   * Starts the installation, which outlives the agent.
   * @param authorityPem CA certificate of the gateway, in PEM
   * @throws {BerthError} `upgrade_unsupported`, `upgrade_running`, `no_previous_version`
   */
  start(order: UpgradeOrder, authorityPem: string): Promise<void>
}
