import { EventFeed, type FeedMessage, type FeedOrder } from './feed.ts'

/** A tab's way to the stream. */
export interface FeedLink {
  order(order: FeedOrder): void
}

/** By the worker that all tabs share; in browsers without such workers a tab has a stream of its own while it is seen. */
export function openFeedLink(hear: (message: FeedMessage) => void): FeedLink {
  if (typeof SharedWorker === 'undefined') return ownFeed(hear)
  const worker = new SharedWorker(new URL('./feed-worker.ts', import.meta.url), {
    type: 'module',
    name: 'berth-events',
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
