import { randomInt } from 'node:crypto'
import { BerthError } from '../../../shared/errors.js'
import type { Database } from '../../state/database.js'
import { formatIpv4, parseIpv4, parseSubnet } from '../subnet.js'

export { macOf } from '../subnet.js'

/*
 * This module chooses guests' private IPv4 addresses inside the caller's transaction. Only the journal decides which
 * addresses are free. A few random tries find a free address unless the network is nearly full. If the tries fail, the
 * module reads all taken addresses and chooses from the free ones.
 */

const tries = 32

/**
 * Chooses a free address at random, so that a freed address is not assigned again soon.
 * @throws {BerthError} `resource_exhausted`
 */
export function allocateIpv4(db: Database, cidr: string): string {
  const { first, last } = parseSubnet(cidr)
  const taken = db.prepare('SELECT 1 FROM guests WHERE ipv4 = ?')
  for (let i = 0; i < tries; i++) {
    const address = formatIpv4(randomInt(first, last + 1))
    if (!taken.get(address)) return address
  }
  const all = db.prepare<[], string>('SELECT ipv4 FROM guests').pluck().all()
  const owned = new Set(all.map((text) => parseIpv4(text) ?? 0))
  const free: number[] = []
  for (let value = first; value <= last; value++) if (!owned.has(value)) free.push(value)
  if (free.length === 0)
    throw new BerthError(
      'exhausted',
      'resource_exhausted',
      'the private network of the host has no free IPv4 addresses',
    )
  return formatIpv4(free[randomInt(free.length)]!)
}

/** Returns the name of a guest's host-side interface. The kernel limits such names to 15 characters. */
export function deviceName(prefix: string, id: number): string {
  const name = `${prefix}${id}`
  if (!Number.isSafeInteger(id) || id < 1 || name.length > 15)
    throw new BerthError('internal', 'internal_error', `there is no valid interface name for guest ${id}`)
  return name
}
