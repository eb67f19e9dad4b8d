import type { AgentConfig } from '../config.js'

/** Thresholds from which a guest's behaviour is reported (see docs/abuse.md). */
export type Thresholds = Pick<
  AgentConfig['security'],
  'port_scan' | 'horizontal_scan' | 'brute_force' | 'ddos' | 'spam' | 'proxy' | 'reflection'
>
