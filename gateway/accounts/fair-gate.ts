/** The account, the address and the kind of some work. They decide when this work starts. */
export interface GateClaim {
  /** Kind of work. Logins run before other work, for example before hashing new passwords. */
  readonly kind: 'login' | 'other'
  /** Account to log in to, or the caller that sets a password. Waiting requests of different accounts take turns. */
  readonly account: string
  /** Client address of the request. */
  readonly source: string
  /**
   * True if the request has a session, or its device or address has logged in to this account before. Requests of
   * strangers run later.
   */
  readonly known?: boolean
}

export interface GateLimits {
  readonly atOnce: number
  /** Maximum number of concurrent work items that are not logins. */
  readonly othersAtOnce: number
  /** Maximum number of strangers' logins at the same time, so that many of them do not delay known users. */
  readonly strangersAtOnce: number
  /** Maximum length of each queue. In a full queue, work of the account and address with the most work is rejected. */
  readonly maxWaiting: number
  /** Maximum length of the queue of strangers' logins. It is short, so that excess logins are rejected early. */
  readonly maxStrangers: number
  /** Maximum waiting time in ms. Work that has not started by then is rejected. */
  readonly maxWaitMs: number
}

/** Strangers have a separate queue. In a common queue, invented user names would be first, because each name is new. */
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

/** Number of logins after which other work gets a turn, so that a flood of logins cannot block other work forever. */
const loginsPerOther = 16
/** Number of logins of known users after which a stranger's login gets a turn. */
const knownPerStranger = 4
/** An account or address counts as recently served if it had one of the last 32 turns. */
const recentTurns = 32
/** Maximum number of accounts and addresses in `#served`. If there are more, all are forgotten. */
const maxServed = 10_000

/**
 * Limits how much work, such as password checks, runs at the same time. Further work waits in three queues: logins of
 * known users run first, then logins of strangers, then other work. In each queue, accounts and addresses take turns,
 * so that a caller with much work delays only itself.
 */
export class FairGate {
  readonly #running: Record<Queue, number> = { known: 0, stranger: 0, other: 0 }
  readonly #waiting: Record<Queue, QueueEntry[]> = { known: [], stranger: [], other: [] }
  /** By account and by address: number of the turn in which its work last started. */
  readonly #served = new Map<string, number>()
  #turns = 0
  #arrivals = 0
  #loginsSinceOther = 0
  #knownSinceStranger = 0

  constructor(private readonly limits: GateLimits) {}

  /** Runs work when its turn comes. @returns `undefined` if the queue is full or the work has waited too long */
  async run<T>(claim: GateClaim, work: () => Promise<T>): Promise<{ value: T } | undefined> {
    if (!(await this.#turn(claim))) return undefined
    try {
      return { value: await work() }
    } finally {
      this.#running[queueOf(claim)]--
      this.#startNext()
    }
  }

  /** True if the work would be rejected now. Callers can check this before they prepare the work. */
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

  /** Selects the work to start next. @returns `undefined` if nothing waits or the limits allow no further work */
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

  /**
   * Selects the entry to reject. It belongs to the account with the most entries and, among this account's addresses,
   * to the address with the most entries. If several entries are left, selects the one whose turn would be last.
   */
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

  /** Number of the last turn of an account or address. 0: it had no turn recently. */
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

function queueOf({ kind, known }: GateClaim): Queue {
  if (kind === 'other') return 'other'
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
