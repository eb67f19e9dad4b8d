import type { AgentConfig } from '../config.js'

/** From where on what a guest does is told: see docs/abuse.md. */
export type Thresholds = Pick<
  AgentConfig['security'],
  'port_scan' | 'horizontal_scan' | 'brute_force' | 'ddos' | 'spam' | 'proxy' | 'reflection'
>
