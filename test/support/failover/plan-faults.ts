/** Faults of the Redis master. */
export const storeFaults = ['master killed', 'master cut off'] as const
export const gatewayFaults = [
  'gateway killed',
  'gateway stopped for 30 s',
  'gateway cut off from hosts',
  'gateway cut off from Redis',
  'gateway cut off from HAProxy',
] as const
export const faultKinds = [...storeFaults, ...gatewayFaults] as const
export type FaultKind = (typeof faultKinds)[number]

export interface Fault {
  readonly kind: FaultKind
  /** Index of the gateway. Faults of the Redis master ignore this field. */
  readonly gateway: number
}

const perTenMinutes: Readonly<Record<FaultKind, number>> = {
  'master killed': 25,
  'master cut off': 25,
  'gateway killed': 5,
  'gateway stopped for 30 s': 2,
  'gateway cut off from hosts': 2,
  'gateway cut off from Redis': 2,
  'gateway cut off from HAProxy': 2,
}

/** Draws faults for a run: each kind at least once, in a random order that depends only on the seed. */
export function planFaults({ minutes, seed }: { readonly minutes: number; readonly seed: number }): Fault[] {
  const random = randomFrom(seed)
  const countOf = (kind: FaultKind): number => Math.max(1, Math.round((perTenMinutes[kind] * minutes) / 10))
  const faults = faultKinds.flatMap((kind) =>
    Array.from({ length: countOf(kind) }, () => ({ kind, gateway: Math.floor(random() * 3) })),
  )
  const order = faults.map((fault) => ({ fault, rank: random() })).sort((a, b) => a.rank - b.rank)
  return order.map(({ fault }) => fault)
}

/** Returns a generator of numbers from 0 up to 1 (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
