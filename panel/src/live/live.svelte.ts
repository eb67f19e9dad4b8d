import { api, ask } from '../api/client.ts'
import { parseChange, untold, type Change, type Topic } from './changes.ts'
import type { FeedMessage } from './feed.ts'
import { openFeedLink, type FeedLink } from './feed-link.ts'
import { online } from '../api/online.svelte.ts'
import { RefetchThrottle } from './refetch-throttle.ts'

/*
 * The one place that knows how the panel learns of changes: by the gateway's stream, and only where there is none by
 * asking. Pages follow topics; whoever changes something that no event tells touches its topic.
 */

export type { Topic }
type Refetch = () => Promise<void> | void

/** Readings that nobody tells of. */
const readingsMs = 15_000
/** How often all is read again where there is no stream. */
const pollMs = 5_000
/** How often a gateway that did not answer is tried. */
const retryMs = 2_000
/** A tab that nobody looks at for this long needs no stream. */
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

  /** Keeps what is followed fresh from now on; once somebody has logged in. @param mayListen to the stream */
  start(mayListen: boolean): void {
    if (this.#isStarted) return
    this.#isStarted = true
    if (mayListen) this.#link = openFeedLink((message) => this.#hear(message))
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
   * Calls `refetch` now and whenever something of the topics may have changed.
   * @param take takes a change itself: true, and nothing is read again for it
   * @returns what ends it
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

  /** Something of these topics has just changed. */
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
    // What was read while nobody listened may be old.
    this.#all()
  }

  #turned(isLost: boolean): void {
    // Without a stream it is read once there is one.
    if (!isLost && this.#isOpen) this.#all()
    else this.#schedule()
  }

  #lost(): void {
    const wasOpen = this.#isOpen
    this.#isOpen = false
    if (wasOpen && this.#isSeen) void this.#probe()
    else this.#schedule()
  }

  /** Asks why there is no stream: the gateway is away, the session has ended, or it is to be opened again. */
  async #probe(): Promise<void> {
    if (this.#probing) return
    this.#probing = true
    try {
      await ask(() => api.GET('/session'))
      if (this.#isSeen) this.#link?.order('open')
    } catch {
      // Who does not answer is tried again.
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
