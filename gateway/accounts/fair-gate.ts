/** Identifies the caller of a piece of work, and ranks it. */
export interface GateClaim {
  /** Logins take precedence over other work, such as new passwords for other accounts. */
  readonly lane: 'login' | 'other'
  /** Shares one place in the round: an account, or the caller that makes accounts. */
  readonly account: string
  /** Address that the request comes from. */
  readonly source: string
  /**
   * The request comes from a device or an address that logged in to the account before, or from a session: it goes
   * ahead of strangers, and has a separate place in the round.
   */
  readonly known?: boolean
}

export interface GateLimits {
  readonly atOnce: number
  /** Number of places that work other than logins may use. */
  readonly othersAtOnce: number
  /** Number of places that logins of strangers may use, so that a flood does not fill the others. */
  readonly strangersAtOnce: number
  /** Limit of each queue. Beyond it the last work of the account or source with the most waiting work is refused. */
  readonly maxWaiting: number
  /**
   * Limit of the queue for logins of strangers. It is short, so that they are refused early, and no name waits longer.
   */
  readonly maxStrangers: number
  /** Longest wait; work without a turn by then is refused. */
  readonly maxWaitMs: number
}

/** Strangers' names and addresses can be new each time, so no fair share protects others from them. */
type Queue = 'known' | 'stranger' | 'other'

interface QueueEntry {
  readonly claim: GateClaim
  readonly queue: Queue
  readonly flow: string
  readonly arrival: number
  timer?: NodeJS.Timeout
  start(): void
  refuse(): void
}

/** Other work gets a turn after this number of logins, so that a flood of logins does not stop it. */
const loginsPerOther = 16
/** A stranger's login gets a turn after this number of known ones. */
const knownPerStranger = 4
/** A caller that had none of the last turns counts as not served, whether new or not. */
const recentTurns = 32
/** Accounts and addresses that are remembered as served; beyond it all are forgotten. */
const maxServed = 10_000

/**
 * Runs a limited amount of work at once. The rest waits, and takes turns: known logins first, then strangers' logins,
 * then other work; in each queue by account, then by address, the longest unserved first. A caller with much work
 * therefore delays only itself.
 */
export class FairGate {
  readonly #running: Record<Queue, number> = { known: 0, stranger: 0, other: 0 }
  readonly #waiting: Record<Queue, QueueEntry[]> = { known: [], stranger: [], other: [] }
  /** Number of the last turn of each account and address. */
  readonly #served = new Map<string, number>()
  #turns = 0
  #arrivals = 0
  #loginsSinceOther = 0
  #knownSinceStranger = 0

  constructor(private readonly limits: GateLimits) {}

  /** @returns undefined when the work is refused: the queue is full, or the work waited too long */
  async run<T>(claim: GateClaim, work: () => Promise<T>): Promise<{ value: T } | undefined> {
    if (!(await this.#turn(claim))) return undefined
    try {
      return { value: await work() }
    } finally {
      this.#running[queueOf(claim)]--
      this.#startNext()
    }
  }

  /** True if the work would be refused now, so that nothing need be prepared for it. */
  refuses(claim: GateClaim): boolean {
    const queue = this.#waiting[queueOf(claim)]
    if (queue.length < this.#mostWaiting(queueOf(claim))) return false
    const entry = this.#entry(claim, () => undefined)
    return this.#last([...queue, entry]) === entry
  }

  #turn(claim: GateClaim): Promise<boolean> {
    return new Promise((resolve) => {
      const entry = this.#entry(claim, resolve)
      entry.timer = setTimeout(() => this.#refuse(entry), this.limits.maxWaitMs).unref()
      const queue = this.#waiting[entry.queue]
      queue.push(entry)
      this.#startNext()
      if (queue.length > this.#mostWaiting(entry.queue)) this.#refuse(this.#last(queue))
    })
  }

  #entry(claim: GateClaim, resolve: (isAdmitted: boolean) => void): QueueEntry {
    return {
      claim,
      queue: queueOf(claim),
      flow: flowOf(claim),
      arrival: this.#arrivals++,
      start: () => resolve(true),
      refuse: () => resolve(false),
    }
  }

  #mostWaiting(queue: Queue): number {
    return queue === 'stranger' ? this.limits.maxStrangers : this.limits.maxWaiting
  }

  #startNext(): void {
    for (let next = this.#pick(); next; next = this.#pick()) {
      const { claim, flow, queue } = next
      this.#remove(next)
      this.#running[queue]++
      this.#loginsSinceOther = queue === 'other' ? 0 : this.#loginsSinceOther + 1
      if (queue !== 'other') this.#knownSinceStranger = queue === 'known' ? this.#knownSinceStranger + 1 : 0
      this.#note(flow, sourceKey(claim))
      next.start()
    }
  }

  /** @returns undefined when no work waits, or the limit of running work is reached */
  #pick(): QueueEntry | undefined {
    const { known, stranger, other } = this.#running
    if (known + stranger + other >= this.limits.atOnce) return undefined
    const queue = this.#order().find((one) => this.#waiting[one].length > 0 && this.#mayRun(one))
    return queue && this.#first(this.#waiting[queue])
  }

  #order(): readonly Queue[] {
    if (this.#loginsSinceOther >= loginsPerOther) return ['other', 'known', 'stranger']
    if (this.#knownSinceStranger >= knownPerStranger) return ['stranger', 'known', 'other']
    return ['known', 'stranger', 'other']
  }

  #mayRun(queue: Queue): boolean {
    const { atOnce, othersAtOnce, strangersAtOnce } = this.limits
    return this.#running[queue] < { known: atOnce, stranger: strangersAtOnce, other: othersAtOnce }[queue]
  }

  #first(queue: readonly QueueEntry[]): QueueEntry | undefined {
    let best: QueueEntry | undefined
    for (const entry of queue) if (!best || this.#compare(entry, best) < 0) best = entry
    return best
  }

  /** Finds the work to refuse: the last one of the address with the most work, within the account with the most. */
  #last(queue: readonly QueueEntry[]): QueueEntry {
    const ofFlow = countBy(queue, ({ flow }) => flow)
    const placeOf = ({ flow, claim }: QueueEntry): string => `${flow} ${claim.source}`
    const ofPlace = countBy(queue, placeOf)
    const compare = (a: QueueEntry, b: QueueEntry): number =>
      ofFlow.get(a.flow)! - ofFlow.get(b.flow)! ||
      ofPlace.get(placeOf(a))! - ofPlace.get(placeOf(b))! ||
      this.#compare(a, b)
    return queue.reduce((last, entry) => (compare(entry, last) > 0 ? entry : last))
  }

  #compare(a: QueueEntry, b: QueueEntry): number {
    return (
      this.#servedAt(a.flow) - this.#servedAt(b.flow) ||
      this.#servedAt(sourceKey(a.claim)) - this.#servedAt(sourceKey(b.claim)) ||
      a.arrival - b.arrival
    )
  }

  /** 0: not recently. Otherwise an owner who tries again would wait for all names that were never seen. */
  #servedAt(key: string): number {
    const turn = this.#served.get(key) ?? 0
    return turn > this.#turns - recentTurns ? turn : 0
  }

  #note(...keys: readonly string[]): void {
    if (this.#served.size > maxServed) this.#served.clear()
    this.#turns++
    for (const key of keys) this.#served.set(key, this.#turns)
  }

  #refuse(entry: QueueEntry): void {
    if (this.#remove(entry)) entry.refuse()
  }

  #remove(entry: QueueEntry): boolean {
    const queue = this.#waiting[entry.queue]
    const at = queue.indexOf(entry)
    if (at < 0) return false
    clearTimeout(entry.timer)
    queue.splice(at, 1)
    return true
  }
}

function queueOf({ lane, known }: GateClaim): Queue {
  if (lane === 'other') return 'other'
  return known ? 'known' : 'stranger'
}

function flowOf({ account, known }: GateClaim): string {
  return known ? `known ${account}` : `account ${account}`
}

function sourceKey({ source }: GateClaim): string {
  return `source ${source}`
}

function countBy(entries: readonly QueueEntry[], keyOf: (entry: QueueEntry) => string): Map<string, number> {
  const counts = new Map<string, number>()
  for (const entry of entries) counts.set(keyOf(entry), (counts.get(keyOf(entry)) ?? 0) + 1)
  return counts
}
