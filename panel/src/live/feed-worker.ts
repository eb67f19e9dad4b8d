import { EventFeed, type FeedMessage, type FeedOrder } from './feed.ts'

/*
 * The worker that all tabs of a browser share, so that they have one stream between them: by HTTP/1.1 a browser has six
 * connections to a server, for everything.
 */

/** Of the worker's global scope, what is used here; the types of the panel are those of pages. */
interface SharedScope {
  onconnect: ((event: MessageEvent) => void) | null
}

const tabs = new Set<MessagePort>()
/** Those that somebody may be looking at. */
const awake = new Set<MessagePort>()
const feed = new EventFeed((message) => tabs.forEach((tab) => tell(tab, message)))

function tell(tab: MessagePort, message: FeedMessage): void {
  tab.postMessage(message)
}

function carryOut(tab: MessagePort, order: FeedOrder): void {
  if (order === 'open') {
    tabs.add(tab)
    awake.add(tab)
    if (feed.isOpen) tell(tab, { kind: 'open' })
    feed.open()
    return
  }
  awake.delete(tab)
  if (order === 'leave') tabs.delete(tab)
  if (awake.size > 0) return
  feed.close()
  tabs.forEach((one) => tell(one, { kind: 'lost' }))
}

;(self as unknown as SharedScope).onconnect = ({ ports: [tab] }) => {
  if (tab) tab.onmessage = ({ data }: MessageEvent<FeedOrder>) => carryOut(tab, data)
}
