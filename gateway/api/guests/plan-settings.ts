import { parseAddress } from '../../../shared/addresses.js'
import { invalidField } from '../../../shared/errors.js'
import { checkTrafficLimit } from '../../../shared/network-limits.js'
import type { GuestLimits } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { TrafficLimitChange } from '../../../proto/gen/berth/agent/v1/network.js'

/* This module converts request fields to settings. `undefined` means that the field was not sent. */

type RateName = 'networkDownMbps' | 'networkUpMbps' | 'ioReadMbps' | 'ioWriteMbps'
type RequestsName = 'ioReadIops' | 'ioWriteIops'

export interface RateBody {
  readonly network_down_mbps?: number
  readonly network_up_mbps?: number
  readonly io_read_mbps?: number
  readonly io_write_mbps?: number
  readonly io_read_iops?: number
  readonly io_write_iops?: number
  readonly network_bw_mbps?: number
  readonly io_speed_mbps?: number
}

/** Converts rates. A legacy field sets both directions. The field of one direction takes precedence, unless it is 0. */
export function planRates(body: RateBody): { [Name in RateName | RequestsName]: number | undefined } {
  const { network_bw_mbps: bandwidth, io_speed_mbps: speed } = body
  return {
    networkDownMbps: rateOf(body.network_down_mbps, bandwidth),
    networkUpMbps: rateOf(body.network_up_mbps, bandwidth),
    ioReadMbps: rateOf(body.io_read_mbps, speed),
    ioWriteMbps: rateOf(body.io_write_mbps, speed),
    ioReadIops: body.io_read_iops,
    ioWriteIops: body.io_write_iops,
  }
}

/** Clients that send the legacy field also send 0 for each direction. This 0 must not override the legacy field. */
function rateOf(split: number | undefined, legacy: number | undefined): number | undefined {
  return split || legacy || (split ?? legacy)
}

/** Rates of a new container. Rates that were not sent are unlimited. */
export function planInitialRates(body: RateBody): Pick<GuestLimits, RateName | RequestsName> {
  const { networkDownMbps = 0, networkUpMbps = 0, ioReadMbps = 0, ioWriteMbps = 0, ...iops } = planRates(body)
  return { networkDownMbps, networkUpMbps, ioReadMbps, ioWriteMbps, ...iops }
}

export interface TrafficBody {
  readonly traffic_mode?: 'total' | 'split' | 'in_out'
  readonly monthly_traffic_gb?: number
  readonly traffic_in_gb?: number
  readonly traffic_out_gb?: number
  readonly traffic_action?: 'stop' | 'throttle' | 'none'
  readonly traffic_throttle_mbps?: number
  readonly traffic_reset_day?: number
}

/** @throws {BerthError} `invalid_field` */
export function planTraffic(body: TrafficBody): TrafficLimitChange {
  const numbers = {
    monthlyGb: body.monthly_traffic_gb,
    inGb: body.traffic_in_gb,
    outGb: body.traffic_out_gb,
    throttleMbps: body.traffic_throttle_mbps,
    resetDay: body.traffic_reset_day,
  }
  checkTrafficLimit(numbers)
  const mode = body.traffic_mode === 'in_out' ? 'split' : body.traffic_mode
  return { ...numbers, mode, action: body.traffic_action }
}

/** Returns addresses in canonical form. @throws {BerthError} `invalid_field` for a duplicate */
export function planAddresses(field: string, addresses: readonly string[] = []): string[] {
  const canonical = addresses.map((text, index) => {
    const address = parseAddress(text)
    if (!address) throw invalidField(`${field}.${index}`, `${field}.${index}: not an IP address`)
    return address.text
  })
  const twice = canonical.findIndex((text, index) => canonical.indexOf(text) < index)
  if (twice >= 0) throw invalidField(`${field}.${twice}`, `${field}.${twice}: appears more than once`)
  return canonical
}
