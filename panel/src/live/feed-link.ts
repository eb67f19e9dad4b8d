import { EventFeed, type FeedMessage, type FeedOrder } from './feed.ts'

/** The connection of a browser tab to the event stream. */
export interface FeedLink {
  order(order: FeedOrder): void
}

/**
 * Connects to the worker that all tabs of an account share. In browsers without shared workers, a visible tab has its
 * own stream.
 */
export function openFeedLink(account: string, hear: (message: FeedMessage) => void): FeedLink {
  if (typeof SharedWorker === 'undefined') return ownFeed(hear)
  const worker = new SharedWorker(new URL('./feed-worker.ts', import.meta.url), {
    type: 'module',
    name: `berth-events:${account}`,
  })
  worker.port.onmessage = ({ data }: MessageEvent<FeedMessage>) => hear(data)
  return { order: (order) => worker.port.postMessage(order) }
}

function ownFeed(hear: (message: FeedMessage) => void): FeedLink {
  const feed = new EventFeed(hear)
  return {
    order: (order) => {
      if (order === 'open') return feed.open()
      feed.close()
      hear({ kind: 'lost' })
    },
  }
}
