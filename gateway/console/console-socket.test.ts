import { EventEmitter } from 'node:events'
import { expect } from 'chai'
import type { WebSocket } from 'ws'
import type { ConsoleRequest } from '../../shared/console-frames.js'
import { BerthError } from '../../shared/errors.js'
import { brokenError, refusalError } from '../../shared/grpc-errors.js'
import type { ConsoleListener, ConsoleOpener, ConsoleStream } from '../fleet/agent-contract.js'
import { waitFor } from '../../test/support/wait.js'
import { ConsoleSocket, type ConsoleSocketParts } from './console-socket.js'
import type { ConsoleEnding } from './endings.js'

class FakeSocket extends EventEmitter {
  isPaused = false
  pause = (): void => void (this.isPaused = true)
  resume = (): void => void (this.isPaused = false)
  close = (): void => undefined
  terminate = (): void => undefined
}

/** Opens a console. The test plays the agent through the listeners of the streams. */
function openConsole(mode = 'shell', { isOffline = false } = {}) {
  const listeners: ConsoleListener[] = []
  const requests: ConsoleRequest[] = []
  const endings: ConsoleEnding[] = []
  const silent = (): void => undefined
  const stream: ConsoleStream = {
    isPaused: false,
    send: (request) => void requests.push(request),
    end: silent,
    cancel: silent,
    pause: silent,
    resume: silent,
  }
  const connections: string[] = []
  const openBy =
    (connection: string): ConsoleOpener =>
    (listener) => {
      connections.push(connection)
      listeners.push(listener)
      return stream
    }
  const socket = new FakeSocket()
  new ConsoleSocket({
    socket: socket as unknown as WebSocket,
    openStream: openBy('first'),
    reconnect: async () => {
      if (isOffline) throw new BerthError('unavailable', 'host_offline', 'the host is offline')
      return openBy('next')
    },
    start: { guestUuid: 'some', mode } as ConsoleSocketParts['start'],
    voice: {
      connecting: silent,
      ready: silent,
      failed: silent,
      closing: silent,
    } as unknown as ConsoleSocketParts['voice'],
    readFrame: (data, isBinary) => (isBinary ? { type: 'input', bytes: data } : { type: 'ack', bytes: 0 }),
    onReady: silent,
    onEnd: (ending) => endings.push(ending),
  })
  return { socket, listeners, connections, requests, endings }
}

const opened = { $case: 'opened', value: { offset: 0 } } as Parameters<ConsoleListener['onMessage']>[0]

describe('the socket of a console', () => {
  it('is opened again until the host accepts it, if its connection breaks before it is open', async () => {
    const { listeners, connections, requests, endings } = openConsole()
    for (const attempts of [1, 2]) {
      listeners[attempts - 1]!.onEnd(brokenError(undefined))
      await waitFor(() => listeners.length > attempts, { what: 'another attempt' })
    }
    listeners[2]!.onMessage(opened)
    expect(requests.map(({ $case }) => $case)).to.deep.equal(['start', 'start', 'start'])
    expect(connections, 'the connection of each attempt').to.deep.equal(['first', 'next', 'next'])
    expect(endings).to.deep.equal([])
  })

  it('is not opened again if the host is offline', async () => {
    const { listeners, endings } = openConsole('shell', { isOffline: true })
    listeners[0]!.onEnd(brokenError(undefined))
    await waitFor(() => endings.length > 0, { what: 'the end' })
    expect([listeners.length, endings]).to.deep.equal([1, [{ code: 1011, reason: 'host_offline' }]])
  })

  it('opens no second connection if the host refuses the console', () => {
    const { listeners, endings } = openConsole()
    listeners[0]!.onEnd(refusalError({ status: 5, code: 'not_found', field: '', message: 'no such guest' }))
    expect([listeners.length, endings]).to.deep.equal([1, [{ code: 4404, reason: 'not_found' }]])
  })

  it('opens no second connection for a program, because the program has possibly begun', () => {
    const { listeners, endings } = openConsole('run')
    listeners[0]!.onEnd(brokenError(undefined))
    expect([listeners.length, endings]).to.deep.equal([1, [{ code: 1011, reason: 'host_offline' }]])
  })

  it('opens no second connection if the first connection breaks after the console was open', () => {
    const { listeners, endings } = openConsole()
    listeners[0]!.onMessage(opened)
    listeners[0]!.onEnd(brokenError(undefined))
    expect([listeners.length, endings.length]).to.deep.equal([1, 1])
  })

  it('pauses reading after many frames, and resumes even if the program reads none of its input', async () => {
    const { socket, listeners, endings } = openConsole('run')
    listeners[0]!.onMessage(opened)
    socket.emit('message', Buffer.alloc(200 * 1024), true)
    for (let sent = 0; sent < 100_000 && !socket.isPaused; sent++) socket.emit('message', Buffer.alloc(0), false)
    expect(socket.isPaused).to.equal(true)
    await waitFor(() => !socket.isPaused, { what: 'frames are read again' })
    socket.emit('close', 1000)
    expect(endings).to.have.length(1)
  })
})
