import { parseAddress, type AddressFamily } from '../../../shared/addresses.js'
import { invalidField } from '../../../shared/errors.js'
import { checkTrafficLimit, networkLimits } from '../../../shared/network-limits.js'
import type { TrafficLimit as WireTrafficLimit } from '../../../proto/gen/berth/agent/v1/guest.js'
import { unlimitedTraffic, type TrafficLimit } from '../record.js'

/** The year 9999: what JavaScript and every client can still write as a date. */
const lastTimeMs = 253_402_300_799_000

/** @throws {BerthError} `invalid_field` unless addresses of the family, each once; canonical when returned */
export function parseAddresses(field: string, values: readonly string[], family: AddressFamily): string[] {
  if (values.length > networkLimits.addresses.max)
    throw invalidField(field, `${field}: at most ${networkLimits.addresses.max}`)
  const addresses = values.map((value) => {
    const address = parseAddress(value)
    if (address?.family !== family) throw invalidField(field, `${field}: must be ${family} addresses`)
    return address.text
  })
  if (new Set(addresses).size < addresses.length)
    throw invalidField(field, `${field}: an address is there twice`)
  return addresses
}

/** @param value milliseconds since 1970; 0: none. @throws {BerthError} `invalid_field` */
export function parseTime(field: string, value: number): number {
  if (!Number.isSafeInteger(value) || value < 0 || value > lastTimeMs)
    throw invalidField(field, `${field}: no time`)
  return value
}

export type TrafficChange = {
  readonly [Field in keyof WireTrafficLimit]?: WireTrafficLimit[Field] | undefined
}

/** Fields that are not there stay as they are in `base`. @throws {BerthError} `invalid_field` */
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

/** Empty is the first. @throws {BerthError} `invalid_field` naming the words that are known */
function parseWord<Word extends string>(
  field: string,
  value: string,
  words: readonly [Word, ...Word[]],
): Word {
  const word = value === '' ? words[0] : words.find((known) => known === value)
  if (word !== undefined) return word
  throw invalidField(field, `${field}: must be one of ${words.join(', ')}`)
}
