import type { lookup as systemLookup, LookupAddress } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { networkInterfaces } from 'node:os'
import { checkTarget, type TargetPolicy } from './outbound-targets.js'

/**
 * Makes a lookup function that checks all addresses of a name. The connection then uses an address that was checked.
 * @param readOwn returns the addresses of this computer; called for each lookup
 */
export function checkedLookup(
  policy: TargetPolicy,
  lookup: typeof systemLookup,
  readOwn: () => readonly string[],
): LookupFunction {
  return (hostname, options, done) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error) return done(error, [], 0)
      const addresses: LookupAddress[] = Array.isArray(found) ? found : []
      try {
        for (const { address } of addresses) checkTarget(address, policy, readOwn())
      } catch (refusal) {
        return done(refusal as NodeJS.ErrnoException, [], 0)
      }
      if (options.all) return done(null, addresses)
      done(null, addresses[0]?.address ?? '', addresses[0]?.family ?? 0)
    })
  }
}

/** Returns the addresses of this computer's network interfaces. */
export function readOwnAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((list = []) => list.map(({ address }) => address))
}
