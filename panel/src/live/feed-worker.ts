import { EventFeed, type FeedMessage, type FeedOrder } from './feed.ts'

/*
 * All tabs of a browser share this worker and therefore one stream, because a browser opens at most six connections to
 * a server with HTTP/1.1.
 */

/** The part of a shared worker's global scope that this file uses. The panel's types only describe pages' scope. */
interface SharedScope {
  onconnect: ((event: MessageEvent) => void) | null
}

const tabs = new Set<MessagePort>()
/** Tabs that need the stream. A tab that reports that it is hidden is removed. */
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
