import { checkInteger, type Range } from './field-checks.js'
import { limits } from './guest-rules.js'

/* Limits of a guest's network settings, checked by the gateway and again by the agent. */

export const networkLimits = {
  port: { min: 1, max: 65_535 },
  /** Host ports that guests can get. Lower ports belong to the host. */
  natPort: { min: 1024, max: 65_535 },
  firewallRules: 200,
  /** Maximum number of ports and port ranges in one firewall rule. */
  rulePorts: 50,
  /** Monthly traffic limit in GB of 10^9 bytes. */
  trafficGb: { min: 0, max: 1_000_000_000 },
  /** Day of the month on which traffic is reset, or the last day of a shorter month. 0 uses the host's default. */
  resetDay: { min: 0, max: 31 },
  /** Number of addresses of one family per guest. */
  addresses: { min: 0, max: 256 },
} as const

/** The values of a traffic limit that the caller sent. Values that were not sent are absent. */
export interface WantedTraffic {
  readonly monthlyGb?: number | undefined
  readonly inGb?: number | undefined
  readonly outGb?: number | undefined
  readonly throttleMbps?: number | undefined
  readonly resetDay?: number | undefined
}

/** @throws {BerthError} `invalid_field` with the field's name in the API */
export function checkTrafficLimit(wanted: WantedTraffic): void {
  const check = (field: string, value: number | undefined, range: Range): void => {
    if (value !== undefined) checkInteger(field, value, range)
  }
  check('monthly_traffic_gb', wanted.monthlyGb, networkLimits.trafficGb)
  check('traffic_in_gb', wanted.inGb, networkLimits.trafficGb)
  check('traffic_out_gb', wanted.outGb, networkLimits.trafficGb)
  check('traffic_throttle_mbps', wanted.throttleMbps, limits.networkMbps)
  check('traffic_reset_day', wanted.resetDay, networkLimits.resetDay)
}
