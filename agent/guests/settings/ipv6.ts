import { conflict } from '../../../shared/errors.js'
import { checkInteger } from '../../../shared/field-checks.js'
import { networkLimits } from '../../../shared/network-limits.js'
import type { Network } from '../../network/contract.js'
import type { GuestContext } from '../context.js'
import { networkOf } from '../resources/network.js'
import type { GuestRecord } from '../record/record.js'
import { changeGuest, type Target } from './change.js'
import { parseAddresses } from '../parse-settings.js'

interface Ipv6Order {
  /** Number of addresses to choose, in addition to `addresses`. */
  readonly count: number
  readonly addresses: readonly string[]
}

/**
 * Gives a guest more IPv6 addresses, which a running guest gets immediately. A request without addresses and count adds
 * one address if the guest has none.
 * @throws {BerthError} `resource_exhausted`, `address_in_use`, `invalid_field`, and the errors of `changeGuest`
 */
export async function assignIpv6(context: GuestContext, target: Target, wanted: Ipv6Order): Promise<GuestRecord> {
  const { store, network } = context
  const order = checkOrder(wanted)
  return changeGuest(context, target, {
    write: (record) => {
      const chosen = chooseMore(network, record, order)
      if (chosen.length > 0) store.setAddresses(record.uuid, 6, [...record.ipv6Addresses, ...chosen])
      return () => store.setAddresses(record.uuid, 6, record.ipv6Addresses)
    },
    apply: (record) => network.attach(networkOf(record, context.config), ['rules', 'addresses']),
  })
}

function checkOrder({ count, addresses }: Ipv6Order): Ipv6Order {
  return {
    count: checkInteger('ipv6_count', count, networkLimits.addresses),
    addresses: parseAddresses('ipv6_addresses', addresses, 'ipv6'),
  }
}

function chooseMore(
  network: Pick<Network, 'choose'>,
  record: GuestRecord,
  { count, addresses }: Ipv6Order,
): readonly string[] {
  const had = record.ipv6Addresses.length
  const nothingAsked = count === 0 && addresses.length === 0
  if (nothingAsked && had > 0) return [] // an empty request adds nothing to existing addresses
  const ipv6Count = nothingAsked ? 1 : count
  if (had + ipv6Count + addresses.length > networkLimits.addresses.max)
    throw conflict('resource_exhausted', `a container can have at most ${networkLimits.addresses.max} IPv6 addresses`)
  return network.choose({ ipv4Count: 0, publicIpv4s: [], ipv6Count, ipv6Addresses: addresses }).ipv6Addresses
}
