import { connect, type Socket } from 'node:net'

/*
 * Listeners of `GET /events` as one process. It reads a JSON line, { port, key, listeners, slow }, and prints
 * `listening`. Slow listeners stop reading until the process gets a second line. When they have received a reset, it
 * prints `awake`. When its input ends, it prints results. To save CPU time, it scans bytes instead of parsing events.
 */

interface Order {
  readonly port: number
  readonly key: string
  readonly listeners: number
  /** Number of listeners that stop reading. */
  readonly slow: number
}

interface Listening {
  events: number
  last: number
  /** Number of events whose id does not follow the id of the previous event. */
  gaps: number
  resets: number
  rest: Buffer
  ready: boolean
  /** True after the listener has stopped reading. */
  isAsleep: boolean
}

const listeners: Listening[] = []
const asleep: Socket[] = []
/** Time limit within which slow listeners must receive a reset. */
const patienceMs = 20_000
const marks = { id: Buffer.from('\nid: '), reset: Buffer.from('event: reset') }
const sentAt = Buffer.from('"stage":"at ')
const delaysMs: number[] = []

process.stdin.once('data', (chunk: Buffer) => {
  const order = JSON.parse(chunk.toString()) as Order
  const waiting = setInterval(() => {
    if (!listeners.every(({ ready }) => ready)) return
    // Connects only 50 at a time, because the gateway limits connections without a request.
    for (let n = 0; n < 50 && listeners.length < order.listeners; n++) listen(order, listeners.length < order.slow)
    if (!listeners.every(({ ready }) => ready)) return
    clearInterval(waiting)
    process.stdout.write('listening\n')
  }, 20)
})
process.stdin.on('data', (chunk: Buffer) => {
  if (chunk.toString() !== 'wake\n') return
  for (const socket of asleep.splice(0)) socket.resume()
  const giveUpAt = performance.now() + patienceMs
  const waiting = setInterval(() => {
    const isTold = listeners.every(({ isAsleep, resets }) => !isAsleep || resets > 0)
    if (!isTold && performance.now() < giveUpAt) return
    clearInterval(waiting)
    process.stdout.write('awake\n')
  }, 100)
})
process.stdin.on('end', () => {
  const sorted = delaysMs.sort((a, b) => a - b)
  const at = (part: number): number => sorted[Math.floor(sorted.length * part)] ?? 0
  const told = listeners.map(({ events, gaps, resets }) => ({ events, gaps, resets }))
  process.stdout.write(`${JSON.stringify({ told, p50: at(0.5), p99: at(0.99) })}\n`, () => process.exit(0))
})

function listen({ port, key }: Order, slow: boolean): void {
  const one: Listening = {
    events: 0,
    last: 0,
    gaps: 0,
    resets: 0,
    rest: Buffer.alloc(0),
    ready: false,
    isAsleep: false,
  }
  listeners.push(one)
  const socket = connect(port, '127.0.0.1')
  socket.write(`GET /api/v1/events HTTP/1.1\r\nHost: bench\r\nX-API-Key: ${key}\r\n\r\n`)
  socket.on('data', (chunk: Buffer) => {
    take(one, chunk)
    if (!slow || one.isAsleep) return
    one.isAsleep = true
    asleep.push(socket.pause())
  })
}

function take(one: Listening, chunk: Buffer): void {
  one.ready = true
  const bytes = one.rest.length === 0 ? chunk : Buffer.concat([one.rest, chunk])
  if (bytes.includes(marks.reset)) one.resets++
  let at = bytes.indexOf(marks.id)
  let done = 0
  while (at >= 0) {
    const end = bytes.indexOf(10, at + 1)
    if (end < 0) break
    note(one, bytes.toString('latin1', at + marks.id.length, end))
    done = end
    at = bytes.indexOf(marks.id, end)
  }
  noteDelay(one, bytes)
  one.rest =
    at < 0 && done === 0 ? bytes.subarray(-64) : bytes.subarray(at < 0 ? Math.max(done, bytes.length - 64) : at)
}

function note(one: Listening, id: string): void {
  const number = Number(id.slice(id.indexOf('.') + 1))
  if (number === one.last) return // a beat has the id of the event before it
  if (one.last > 0 && number !== one.last + 1) one.gaps++
  one.last = number
  one.events++
}

/** Records the delay of a chunk's first event, which has waited longest. Only every tenth listener does so. */
function noteDelay(one: Listening, bytes: Buffer): void {
  if (one.isAsleep || listeners.indexOf(one) % 10 !== 0) return
  const at = bytes.indexOf(sentAt)
  if (at < 0) return
  const sent = Number(bytes.toString('latin1', at + sentAt.length, at + sentAt.length + 13))
  if (sent > 0) delaysMs.push(Date.now() - sent)
}
