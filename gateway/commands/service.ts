import { execFileSync } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import type { GatewayConfig } from '../config.js'
import { checkReady } from './is-ready.js'

const unit = 'berth-gateway.service'
const readyWithinMs = 120_000

/** Stops the gateway of this machine if systemd runs it. */
export function stopService(): void {
  if (isActive()) execFileSync('systemctl', ['stop', unit], { stdio: 'inherit' })
}

/** Starts the gateway of this machine, and waits until it serves requests. @throws {BerthError} `gateway_unreachable` */
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

function isActive(): boolean {
  try {
    execFileSync('systemctl', ['is-active', '--quiet', unit], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
