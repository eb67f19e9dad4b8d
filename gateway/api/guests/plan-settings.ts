import { parseAddress } from '../../../shared/addresses.js'
import { invalidField } from '../../../shared/errors.js'
import { checkTrafficLimit } from '../../../shared/network-limits.js'
import type { GuestLimits } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { TrafficLimitChange } from '../../../proto/gen/berth/agent/v1/network.js'

/*
 * Settings from request fields, for a new container and for a change alike; what is not sent is undefined.
 */

type RateName = 'networkDownMbps' | 'networkUpMbps' | 'ioReadMbps' | 'ioWriteMbps'

export interface RateBody {
  readonly network_down_mbps?: number
  readonly network_up_mbps?: number
  readonly io_read_mbps?: number
  readonly io_write_mbps?: number
  readonly network_bw_mbps?: number
  readonly io_speed_mbps?: number
}

/** The split fields go before the legacy ones, which mean both; but a legacy limit before a split field of 0. */
export function planRates(body: RateBody): { [Name in RateName]: number | undefined } {
  const { network_bw_mbps: bandwidth, io_speed_mbps: speed } = body
  return {
    networkDownMbps: rateOf(body.network_down_mbps, bandwidth),
    networkUpMbps: rateOf(body.network_up_mbps, bandwidth),
    ioReadMbps: rateOf(body.io_read_mbps, speed),
    ioWriteMbps: rateOf(body.io_write_mbps, speed),
  }
}

/** Clients that know the legacy field alone send 0 for the others: unlimited is not what they mean. */
function rateOf(split: number | undefined, legacy: number | undefined): number | undefined {
  return split || legacy || (split ?? legacy)
}

/** Rates of a new container: what is not sent is unlimited. */
export function planInitialRates(body: RateBody): Pick<GuestLimits, RateName> {
  const { networkDownMbps = 0, networkUpMbps = 0, ioReadMbps = 0, ioWriteMbps = 0 } = planRates(body)
  return { networkDownMbps, networkUpMbps, ioReadMbps, ioWriteMbps }
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

/**
 * Addresses as the wire has them, canonical.
 * @throws {BerthError} `invalid_field` for one that is there twice
 */
export function planAddresses(field: string, addresses: readonly string[] = []): string[] {
  const canonical = addresses.map((text, index) => {
    const address = parseAddress(text)
    if (!address) throw invalidField(`${field}.${index}`, `${field}.${index}: not an IP address`)
    return address.text
  })
  const twice = canonical.findIndex((text, index) => canonical.indexOf(text) < index)
  if (twice >= 0) throw invalidField(`${field}.${twice}`, `${field}.${twice}: is there twice`)
  return canonical
}
