import type { DriverCapabilities } from '../contract.js'

/** Of every host that LXC runs on. */
export const capabilities: DriverCapabilities = {
  consoles: ['text'],
  liveResize: ['vcpu', 'memory_up', 'memory_down', 'disk', 'io'],
  freeze: false,
  setPassword: [],
  snapshotRunning: true,
}
