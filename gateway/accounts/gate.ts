/** Who a piece of work is for, and how it is ranked. */
export interface Claim {
  /** Logins go ahead of other work, such as new passwords made for others. */
  readonly lane: 'login' | 'other'
  /** What shares one place in the round: an account, or the caller that makes accounts. */
  readonly account: string
  /** Address that the request comes from. */
  readonly source: string
  /** From a device that logged in before: it has a place in the round besides that of strangers at the account. */
  readonly known?: boolean
}

export interface GateLimits {
  readonly atOnce: number
  /** Of those, how many may be other work than logins. */
  readonly othersAtOnce: number
  /** In each lane. Beyond it the work that came last for whoever waits with most of it is refused. */
  readonly maxWaiting: number
  /** Work that got no turn by then is refused. */
  readonly maxWaitMs: number
}

interface Waiting {
  readonly claim: Claim
  readonly flow: string
  readonly arrival: number
  readonly timer: NodeJS.Timeout
  start(): void
  refuse(): void
}

/** Other work gets a turn after so many logins, so that a flood of logins does not stop it. */
const loginsPerOther = 16
/** Accounts and addresses that are remembered as served; beyond it all are forgotten. */
const maxServed = 10_000

/**
 * Lets so much work run at once. The rest waits, and takes turns: by account, then by address, those served longest ago
 * first. So whoever has much to do waits for himself, and not others for him.
 */
export class FairGate {
  readonly #running = { login: 0, other: 0 }
  readonly #waiting = { login: [] as Waiting[], other: [] as Waiting[] }
  /** Numbers of the turns that accounts and addresses had last. */
  readonly #served = new Map<string, number>()
  #turns = 0
  #arrivals = 0
  #loginsSinceOther = 0

  constructor(private readonly limits: GateLimits) {}

  /** @returns undefined when the work is refused: too much waits, or it waited too long */
  async run<T>(claim: Claim, work: () => Promise<T>): Promise<{ value: T } | undefined> {
    if (!(await this.#turn(claim))) return undefined
    try {
      return { value: await work() }
    } finally {
      this.#running[claim.lane]--
      this.#startNext()
    }
  }

  #turn(claim: Claim): Promise<boolean> {
    return new Promise((resolve) => {
      const entry: Waiting = {
        ...{ claim, flow: flowOf(claim), arrival: this.#arrivals++ },
        timer: setTimeout(() => this.#refuse(entry), this.limits.maxWaitMs).unref(),
        start: () => resolve(true),
        refuse: () => resolve(false),
      }
      const lane = this.#waiting[claim.lane]
      lane.push(entry)
      this.#startNext()
      if (lane.length > this.limits.maxWaiting) this.#refuse(this.#last(lane))
    })
  }

  #startNext(): void {
    for (let next = this.#pick(); next; next = this.#pick()) {
      const { claim, flow } = next
      this.#remove(next)
      this.#running[claim.lane]++
      this.#loginsSinceOther = claim.lane === 'login' ? this.#loginsSinceOther + 1 : 0
      this.#note(flow, sourceKey(claim))
      next.start()
    }
  }

  /** @returns undefined when nothing waits, or nothing more may run */
  #pick(): Waiting | undefined {
    const { login, other } = this.#running
    if (login + other >= this.limits.atOnce) return undefined
    const mayTakeOther = other < this.limits.othersAtOnce && this.#waiting.other.length > 0
    const isOthersTurn = this.#waiting.login.length === 0 || this.#loginsSinceOther >= loginsPerOther
    return this.#first(mayTakeOther && isOthersTurn ? this.#waiting.other : this.#waiting.login)
  }

  #first(lane: readonly Waiting[]): Waiting | undefined {
    let best: Waiting | undefined
    for (const entry of lane) if (!best || this.#compare(entry, best) < 0) best = entry
    return best
  }

  /** What is refused: of the account that waits with most, there of the address that waits with most, the last. */
  #last(lane: readonly Waiting[]): Waiting {
    const ofFlow = countBy(lane, ({ flow }) => flow)
    const placeOf = ({ flow, claim }: Waiting): string => `${flow} ${claim.source}`
    const ofPlace = countBy(lane, placeOf)
    const compare = (a: Waiting, b: Waiting): number =>
      ofFlow.get(a.flow)! - ofFlow.get(b.flow)! ||
      ofPlace.get(placeOf(a))! - ofPlace.get(placeOf(b))! ||
      this.#compare(a, b)
    return lane.reduce((last, entry) => (compare(entry, last) > 0 ? entry : last))
  }

  #compare(a: Waiting, b: Waiting): number {
    return (
      this.#servedAt(a.flow) - this.#servedAt(b.flow) ||
      Number(b.claim.known ?? false) - Number(a.claim.known ?? false) ||
      this.#servedAt(sourceKey(a.claim)) - this.#servedAt(sourceKey(b.claim)) ||
      a.arrival - b.arrival
    )
  }

  #servedAt(key: string): number {
    return this.#served.get(key) ?? 0
  }

  #note(...keys: readonly string[]): void {
    if (this.#served.size > maxServed) this.#served.clear()
    for (const key of keys) this.#served.set(key, ++this.#turns)
  }

  #refuse(entry: Waiting): void {
    if (this.#remove(entry)) entry.refuse()
  }

  #remove(entry: Waiting): boolean {
    const lane = this.#waiting[entry.claim.lane]
    const at = lane.indexOf(entry)
    if (at < 0) return false
    clearTimeout(entry.timer)
    lane.splice(at, 1)
    return true
  }
}

function flowOf({ account, known }: Claim): string {
  return known ? `known ${account}` : `account ${account}`
}

function sourceKey({ source }: Claim): string {
  return `source ${source}`
}

function countBy(entries: readonly Waiting[], keyOf: (entry: Waiting) => string): Map<string, number> {
  const counts = new Map<string, number>()
  for (const entry of entries) counts.set(keyOf(entry), (counts.get(keyOf(entry)) ?? 0) + 1)
  return counts
}
