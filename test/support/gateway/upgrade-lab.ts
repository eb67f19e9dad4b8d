import { expect } from 'chai'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { installReportPath } from '../../../shared/join-token.js'
import type { InstallAnswer } from '../../../gateway/join/installer.js'
import { labVersion } from '../memory/lab-fleet.js'
import type { MemoryPackages } from '../memory/memory-packages.js'
import { waitFor } from '../wait.js'
import { postToJoinEndpoint } from './join-endpoint.js'
import type { TestGateway } from './test-gateway.js'

/** Version of the agents of a lab before an upgrade. */
export const earlierVersion = '0.0.0-test'

/** Acts on the hosts of a lab as the installation script acts on real hosts. */
export class UpgradeLab {
  constructor(private readonly gateway: Pick<TestGateway, 'fleet'>) {}

  packagesOf(hostId: string): MemoryPackages {
    return this.gateway.fleet.agentOf(hostId).host.packages
  }

  /** Writes the packages that the gateway serves to hosts. By default they have the gateway's version. */
  writePackages(version = labVersion): void {
    const directory = this.gateway.fleet.packagesDirectory
    mkdirSync(directory, { recursive: true })
    writeFileSync(join(directory, 'InRelease'), 'signed')
    writeFileSync(join(directory, 'Packages'), `Package: berth-agent\nVersion: ${version}\n`)
  }

  removePackages(): void {
    rmSync(this.gateway.fleet.packagesDirectory, { recursive: true, force: true })
  }

  /** Restarts an agent with this version, as after an installation, and waits until the gateway shows the version. */
  async install(
    hostId: string,
    version = earlierVersion,
    packages: { supported?: boolean; previous?: string } = {},
  ): Promise<void> {
    const agent = this.gateway.fleet.agentOf(hostId)
    agent.version = version
    Object.assign(agent.host.packages, { supported: true, previous: '', failure: undefined }, packages)
    await agent.restart()
    const { supported, previous } = agent.host.packages
    const isShown = (): boolean => {
      const { state, description } = this.gateway.fleet.findHost(hostId)!
      if (state !== 'online' || description?.version !== version) return false
      return (
        description.features.includes('upgrade') === supported &&
        description.previousVersion === (supported ? previous : '')
      )
    }
    await waitFor(isShown, { what: `${hostId} with version ${version}` })
  }

  /** Reports a step of a host's latest upgrade order, as the installation script does. */
  async report(hostId: string, step: string, message = ''): Promise<InstallAnswer> {
    const { address, token } = await waitFor(() => this.packagesOf(hostId).orders.at(-1), {
      what: `an upgrade order for ${hostId}`,
    })
    const body = JSON.stringify({ token, step, message })
    const { status, text } = await postToJoinEndpoint(address, installReportPath, body)
    expect(status, text).to.equal(200)
    return JSON.parse(text) as InstallAnswer
  }

  /** Waits until a host has received its upgrade order with this number (from 1), and then carries it out. */
  async complete(hostId: string, order: number): Promise<void> {
    await this.#waitForOrder(hostId, order)
    const { version, rollback } = this.packagesOf(hostId).orders.at(-1)!
    await this.install(hostId, version, { previous: rollback ? '' : earlierVersion })
    await this.report(hostId, 'done')
  }

  async fail(hostId: string, order: number, reason: string): Promise<void> {
    await this.#waitForOrder(hostId, order)
    await this.report(hostId, 'failed', reason)
  }

  async #waitForOrder(hostId: string, order: number): Promise<void> {
    const { orders } = this.packagesOf(hostId)
    await waitFor(() => orders.length === order, { what: `order ${order} for ${hostId}` })
  }
}
