import type { GatewayProcess } from '../support/gateway/gateway-process.js'
import { ServedHost, type ServedHostOptions } from '../support/host/served-host.js'
import { PanelLab } from './panel-lab.js'

/** A real gateway that serves the panel, with a real agent on a separate host. */
export class HostLab extends ServedHost {
  panel!: PanelLab<GatewayProcess>

  constructor(options: ServedHostOptions) {
    super(options)
  }

  override async start(): Promise<void> {
    await super.start()
    this.panel = await PanelLab.at(this.gateway)
  }

  override async close(): Promise<void> {
    for (const context of this.panel?.browser.contexts() ?? []) await context.close()
    await super.close()
  }
}
