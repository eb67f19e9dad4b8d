#!/usr/bin/env node
import { chmodSync, rmSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { openGuestProgram } from '../host/guest/guest-program.js'
import { openGuestPty } from '../host/guest/guest-terminal.js'
import { openPty } from '../host/process/pty.js'
import { Holder } from './holder.js'
import { serveConsoles } from './serve.js'
import { SocketTerminals } from './socket-terminal.js'

/*
 * berth-console holds the terminals of guests' consoles. It is a separate process, so that the agent can restart while
 * consoles are in use. The agent starts berth-console to open a console. Some time after its last console has ended,
 * berth-console ends by itself.
 */

const { values } = parseArgs({ options: { socket: { type: 'string' }, 'idle-ms': { type: 'string' } } })
const { socket = '' } = values
const idleMs = Number(values['idle-ms'] ?? 60_000)

process.title = `berth-console ${socket}`
process.umask(0o177)
const sockets = new SocketTerminals()
const holder = new Holder((place, size, listener) => {
  switch (place.kind) {
    case 'socket':
      return sockets.open(place.path, listener)
    case 'program':
      return openPty(place, size, listener)
    case 'guest-terminal':
      return openGuestPty(place, size, listener)
    case 'guest-program':
      return openGuestProgram(place, listener)
  }
}, endWhenIdle)
const server = serveConsoles(holder, { onConnection: endWhenIdle, onEnd: end })
let idle: NodeJS.Timeout | undefined

rmSync(socket, { force: true })
server.listen(socket, () => chmodSync(socket, 0o600))
server.on('error', (error) => {
  console.error(error)
  process.exit(1)
})
process.on('SIGTERM', end)
endWhenIdle()

function endWhenIdle(): void {
  clearTimeout(idle)
  if (holder.size === 0) idle = setTimeout(end, idleMs)
}

function end(): void {
  holder.closeAll()
  rmSync(socket, { force: true })
  process.exit()
}
