/** Counts of a guest's packets. `amplified`: traffic of the guest's services, by UDP port. */
export interface PacketCounts {
  /** TCP connections that the guest opened, and how many were accepted, refused, or reported as unreachable. */
  readonly opened: number
  readonly accepted: number
  readonly refused: number
  readonly unreachable: number
  /** Connections that the guest opened to port 25. */
  readonly mail: number
  readonly sent: number
  readonly received: number
  /** Packets that were dropped because the guest had too many connections. */
  readonly limited: number
  /** Packets that were dropped because their source address was not the guest's. */
  readonly forged: number
  readonly amplified: ReadonlyMap<number, ServiceTraffic>
}

/** Bytes of the requests to a service of the guest (`asked`), and bytes of the service's answers (`served`). */
export interface ServiceTraffic {
  readonly askedBytes: number
  readonly servedBytes: number
}

export const noCounts: PacketCounts = {
  opened: 0,
  accepted: 0,
  refused: 0,
  unreachable: 0,
  mail: 0,
  sent: 0,
  received: 0,
  limited: 0,
  forged: 0,
  amplified: new Map(),
}

/** Returns the increase since `before`. A counter that is lower than in `before` was reset in the meantime. */
export function planGrowth(before: PacketCounts, now: PacketCounts): PacketCounts {
  const { amplified } = now
  const numbers = Object.entries(now).filter((entry): entry is [string, number] => typeof entry[1] === 'number')
  const grown = numbers.map(([name, value]) => [name, growth(before[name as keyof PacketCounts] as number, value)])
  const served = [...amplified].map(([port, { askedBytes, servedBytes }]) => {
    const had = before.amplified.get(port) ?? { askedBytes: 0, servedBytes: 0 }
    const bytes = {
      askedBytes: growth(had.askedBytes, askedBytes),
      servedBytes: growth(had.servedBytes, servedBytes),
    }
    return [port, bytes] as const
  })
  return {
    ...(Object.fromEntries(grown) as unknown as PacketCounts),
    amplified: new Map(served.filter(([, bytes]) => bytes.servedBytes > 0)),
  }
}

function growth(before: number, now: number): number {
  return now >= before ? now - before : now
}

export function isQuiet(counts: PacketCounts): boolean {
  return counts.amplified.size === 0 && Object.values(counts).every((value) => value === 0 || typeof value !== 'number')
}
