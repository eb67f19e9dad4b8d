import { api, ask } from '../api/client.ts'
import { parseChange, untold, type Change, type Topic } from './changes.ts'
import type { FeedMessage } from './feed.ts'
import { openFeedLink, type FeedLink } from './feed-link.ts'
import { online } from '../api/online.svelte.ts'
import { RefetchThrottle } from './refetch-throttle.ts'

/*
 * Only this module knows whether the panel uses the gateway's event stream or, without a stream, polling. Pages
 * follow topics. Code that changes data without an event calls `touch` for its topic.
 */

export type { Topic }
type Refetch = () => Promise<void> | void

/** Interval in ms between reads of measurements that no event reports. */
const readingsMs = 15_000
/** Interval in ms at which all followed data is read while there is no stream. */
const pollMs = 5_000
/** Interval in ms of retries while the gateway does not answer. */
const retryMs = 2_000
/** Time in ms for which a tab must be hidden before it closes its stream. */
const restMs = 60_000

interface Follower {
  readonly topics: readonly Topic[]
  readonly reading: RefetchThrottle
  readonly take: (change: Change) => boolean
}

class Live {
  readonly #followers = new Set<Follower>()
  #link: FeedLink | undefined
  #isStarted = false
  #isOpen = false
  #probing = false
  #retry: ReturnType<typeof setTimeout> | undefined
  #resting: ReturnType<typeof setTimeout> | undefined

  /**
   * Begins to update the data that pages follow. Call it after the login.
   * @param account tabs of the same account share a stream
   * @param mayListen true to use the event stream
   */
  start(account: string, mayListen: boolean): void {
    if (this.#isStarted) return
    this.#isStarted = true
    if (mayListen) this.#link = openFeedLink(account, (message) => this.#hear(message))
    this.#link?.order('open')
    document.addEventListener('visibilitychange', () => this.#looked())
    window.addEventListener('focus', () => this.#looked())
    window.addEventListener('pagehide', () => this.#link?.order('leave'))
    window.addEventListener('pageshow', ({ persisted }) => persisted && this.#link?.order('open'))
    window.addEventListener('offline', () => online.lost())
    window.addEventListener('online', () => void this.#probe())
    online.onChange((isLost) => this.#turned(isLost))
    setInterval(() => this.#isSeen && !online.isLost && this.touch('usage'), readingsMs)
    this.#schedule()
  }

  /**
   * Calls `refetch` now, and whenever data of the topics can have changed.
   * @param take applies an event directly. If it returns true, `refetch` is not called for this event.
   * @returns a function that ends the updates
   */
  follow(topics: readonly Topic[], refetch: Refetch, take: (change: Change) => boolean = () => false): () => void {
    const follower = { topics, take, reading: new RefetchThrottle(refetch) }
    this.#followers.add(follower)
    follower.reading.ask()
    return () => {
      follower.reading.stop()
      this.#followers.delete(follower)
    }
  }

  /** Reads data of the given topics again. Call it after a change of this data. */
  touch(...topics: readonly Topic[]): void {
    for (const follower of this.#followersOf(topics)) follower.reading.ask()
  }

  get #isSeen(): boolean {
    return document.visibilityState === 'visible'
  }

  *#followersOf(topics: readonly Topic[]): Iterable<Follower> {
    for (const follower of this.#followers) if (follower.topics.some((topic) => topics.includes(topic))) yield follower
  }

  #all(): void {
    for (const { reading } of this.#followers) reading.ask()
  }

  #hear(message: FeedMessage): void {
    if (message.kind === 'events') for (const text of message.events) this.#apply(parseChange(text))
    else if (message.kind === 'reset') this.#all()
    else if (message.kind === 'open') this.#opened()
    else this.#lost()
  }

  #apply(change: Change): void {
    for (const { take, reading } of this.#followersOf(change.topics)) if (!take(change)) reading.ask()
  }

  #opened(): void {
    if (this.#isOpen) return
    online.reached()
    this.#isOpen = true
    clearTimeout(this.#retry)
    // Data that was read before the stream opened can be outdated.
    this.#all()
  }

  #turned(isLost: boolean): void {
    // If the stream is not open, nothing is read here, because all data is read when the stream opens.
    if (!isLost && this.#isOpen) this.#all()
    else this.#schedule()
  }

  #lost(): void {
    const wasOpen = this.#isOpen
    this.#isOpen = false
    if (wasOpen && this.#isSeen) void this.#probe()
    else this.#schedule()
  }

  /** Finds out why there is no stream: the gateway is offline, the session has ended, or only the stream was lost. */
  async #probe(): Promise<void> {
    if (this.#probing) return
    this.#probing = true
    try {
      await ask(() => api.GET('/session'))
      if (this.#isSeen) this.#link?.order('open')
    } catch {
      // The gateway does not answer. #schedule plans the next try.
    } finally {
      this.#probing = false
      this.#schedule()
    }
  }

  #schedule(): void {
    clearTimeout(this.#retry)
    if (this.#isOpen && !online.isLost) return
    this.#retry = setTimeout(() => this.#again(), online.isLost ? retryMs : pollMs)
  }

  #again(): void {
    if (!this.#isSeen) return
    if (!online.isLost) this.#all()
    void this.#probe()
  }

  #looked(): void {
    clearTimeout(this.#resting)
    if (!this.#isSeen) {
      this.#resting = setTimeout(() => this.#link?.order('rest'), restMs)
      return
    }
    this.touch(...untold)
    this.#link?.order('open')
    this.#schedule()
  }
}

export const live = new Live()
