import type { DiagnoseConnectionResponse } from '../../../proto/gen/berth/agent/v1/guest.js'
import { parseAddress } from '../../../shared/addresses.js'
import type { FleetView, GuestView } from '../../fleet/contract.js'
import { NameLookup } from './name-lookup.js'
import { planAddressStep, type AddressVerdict } from './plan-address-step.js'

/** The address that customers see for a port of a guest. `verdict`: shows if the address leads to the guest's host. */
export interface JudgedAddress {
  /** Address or name that customers see. "": not known. */
  readonly address: string
  readonly verdict: AddressVerdict
}

/** Answers of name servers are cached, because customers can trigger look-ups. */
const names = new NameLookup({ timeoutMs: 2000, keepMs: 30_000, keep: 1000 })

/** Selects and checks the address that customers see. @param found result of the agent, which is not trusted */
export async function judgeAddress(
  view: FleetView,
  { hostId, hostAddress }: GuestView,
  found: Pick<DiagnoseConnectionResponse, 'address' | 'hostAddresses'>,
): Promise<JudgedAddress> {
  const own = parseAddress(found.address)?.text ?? ''
  const isName = own === '' && hostAddress !== '' && !parseAddress(hostAddress)
  const verdict = planAddressStep({
    own,
    host: hostAddress,
    resolved: isName ? await names.resolve(hostAddress) : [],
    hostAddresses: found.hostAddresses.flatMap((text) => parseAddress(text)?.text ?? []),
    otherHosts: view
      .hosts()
      .filter(({ id }) => id !== hostId)
      .flatMap((other) => [other.publicAddress.host, other.metrics?.publicIpv4 ?? '']),
  })
  return { address: own || hostAddress, verdict }
}
