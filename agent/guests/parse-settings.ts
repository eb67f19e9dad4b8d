import { parseAddress, type AddressFamily } from '../../shared/addresses.js'
import { invalidField } from '../../shared/errors.js'
import { checkTrafficLimit, networkLimits } from '../../shared/network-limits.js'
import type { TrafficLimit as WireTrafficLimit } from '../../proto/gen/berth/agent/v1/guest.js'
import { unlimitedTraffic, type TrafficLimit } from './record/record.js'

/** End of the year 9999, the last year that JavaScript and every client can format. */
export const lastTimeMs = 253_402_300_799_000

/** Returns canonical addresses. @throws {BerthError} `invalid_field` for duplicates, or addresses of another family */
export function parseAddresses(field: string, values: readonly string[], family: AddressFamily): string[] {
  if (values.length > networkLimits.addresses.max)
    throw invalidField(field, `${field}: at most ${networkLimits.addresses.max} addresses are allowed`)
  const addresses = values.map((value) => {
    const address = parseAddress(value)
    if (address?.family !== family) throw invalidField(field, `${field}: must be ${family} addresses`)
    return address.text
  })
  if (new Set(addresses).size < addresses.length)
    throw invalidField(field, `${field}: an address appears more than once`)
  return addresses
}

/** Checks a time. @param value ms since 1970; 0 means that no time is set @throws {BerthError} `invalid_field` */
export function parseTime(field: string, value: number): number {
  if (!Number.isSafeInteger(value) || value < 0 || value > lastTimeMs)
    throw invalidField(field, `${field}: not a valid date and time`)
  return value
}

export type TrafficChange = {
  readonly [Field in keyof WireTrafficLimit]?: WireTrafficLimit[Field] | undefined
}

/** Parses a traffic limit. Undefined fields keep their value from `base`. @throws {BerthError} `invalid_field` */
export function parseTrafficLimit(
  wire: TrafficChange | undefined,
  base: TrafficLimit = unlimitedTraffic,
): TrafficLimit {
  if (!wire) return base
  checkTrafficLimit(wire)
  return {
    mode: wire.mode === undefined ? base.mode : parseWord('traffic_mode', wire.mode, modes),
    monthlyGb: wire.monthlyGb ?? base.monthlyGb,
    inGb: wire.inGb ?? base.inGb,
    outGb: wire.outGb ?? base.outGb,
    action: wire.action === undefined ? base.action : parseWord('traffic_action', wire.action, actions),
    throttleMbps: wire.throttleMbps ?? base.throttleMbps,
    resetDay: wire.resetDay ?? base.resetDay,
  }
}

const modes = ['total', 'split'] as const
const actions = ['stop', 'throttle', 'none'] as const

/** Parses a word. An empty value means the first of `words`. @throws {BerthError} `invalid_field` */
function parseWord<Word extends string>(field: string, value: string, words: readonly [Word, ...Word[]]): Word {
  const word = value === '' ? words[0] : words.find((known) => known === value)
  if (word !== undefined) return word
  throw invalidField(field, `${field}: must be one of ${words.join(', ')}`)
}
