import { execFileSync } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import type { GatewayConfig } from '../config.js'
import { checkReady } from './is-ready.js'

const unit = 'berth-gateway.service'
const readyWithinMs = 120_000

/** Stops the gateway on this host, even while systemd is about to start it again. */
export function stopService(): void {
  execFileSync('systemctl', ['stop', unit], { stdio: 'inherit' })
}

/** Starts the gateway on this host, and waits until it serves requests. @throws {BerthError} `gateway_unreachable` */
export async function startService(config: GatewayConfig): Promise<void> {
  execFileSync('systemctl', ['start', unit], { stdio: 'inherit' })
  const deadline = performance.now() + readyWithinMs
  for (;;)
    try {
      return await checkReady(config)
    } catch (error) {
      if (performance.now() > deadline) throw error
      await delay(500)
    }
}
