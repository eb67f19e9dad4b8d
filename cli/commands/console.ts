import type { WebSocket } from 'ws'
import { closeError } from '../consoles/close-error.js'
import { openConsoleSocket } from '../consoles/open-socket.js'
import { CliError, exitCodes, usageError } from '../errors.js'
import { readGuest } from '../names/guest.js'
import { openSession, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export interface ConsoleRun {
  readonly guest: string
  readonly isSerial: boolean
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** Ctrl-], as in telnet. */
const escapeByte = 0x1d
/** The server sends at most 512 KiB beyond the last acknowledged byte. */
const ackEveryBytes = 64 * 1024
const normalClosure = 1000

/** Connects the terminal of the user with a terminal of a guest. */
export async function runConsole({ guest, isSerial, options, surroundings }: ConsoleRun): Promise<void> {
  if (!process.stdin.isTTY) throw usageError('a console needs a terminal', 'use berth ssh GUEST -- COMMAND in scripts')
  const session = await openSession(surroundings, options)
  const { uuid, name } = await readGuest(session, guest)
  const query = { ...sizeOf(), ...(isSerial && { mode: 'serial' }) }
  const socket = await openConsoleSocket(session, { kind: 'ssh', guest: uuid, protocol: 'berth.console.v1', query })
  surroundings.writeError(`Connected to ${name}. Ctrl-] ends the console.\r\n`)
  await attach(socket)
}

function sizeOf(): { cols: string; rows: string } {
  const { columns = 80, rows = 24 } = process.stdout
  return { cols: String(columns), rows: String(rows) }
}

async function attach(socket: WebSocket): Promise<void> {
  const { stdin, stdout } = process
  const send = (message: object): void => socket.send(JSON.stringify(message))
  const resize = (): void => send({ type: 'resize', cols: stdout.columns, rows: stdout.rows })
  const type = (bytes: Buffer): void => {
    const at = bytes.indexOf(escapeByte)
    if (at !== 0) socket.send(at < 0 ? bytes : bytes.subarray(0, at))
    if (at >= 0) socket.close(normalClosure)
  }
  acknowledge(socket, (bytes) => send({ type: 'ack', bytes }))
  socket.once('open', () => {
    stdin.setRawMode(true)
    stdin.on('data', type)
    stdout.on('resize', resize)
  })
  try {
    await closed(socket)
  } finally {
    stdin.off('data', type)
    stdin.setRawMode(false)
    stdin.pause()
    stdout.off('resize', resize)
  }
}

function acknowledge(socket: WebSocket, ack: (bytes: number) => void): void {
  let received = 0
  let acknowledged = 0
  socket.on('message', (data: Buffer, isBinary) => {
    if (!isBinary) return
    process.stdout.write(data)
    received += data.length
    if (received - acknowledged < ackEveryBytes) return
    acknowledged = received
    ack(received)
  })
}

function closed(socket: WebSocket): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once('error', (cause) =>
      reject(new CliError(exitCodes.unreachable, `the console cannot be opened: ${cause.message}`)),
    )
    socket.once('close', (code, reason) => {
      const error = closeError(code, reason.toString())
      if (error) reject(error)
      else resolve()
    })
  })
}
