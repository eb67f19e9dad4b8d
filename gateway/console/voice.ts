import type { WebSocket } from 'ws'
import type { ConsoleEnding } from './endings.js'

export interface OpenedConsole {
  readonly resume: string
  readonly resumed: boolean
  /** Number of bytes of old output that are sent first. Terminals must not answer terminal queries in these bytes. */
  readonly replay: number
  readonly offset: number
}

/** Sends messages to a client in addition to the guest's output. */
export interface ConsoleVoice {
  /** True if the client acknowledges the output that it has received. */
  readonly acknowledges: boolean
  connecting(socket: WebSocket): void
  ready(socket: WebSocket, opened: OpenedConsole): void
  /** Reports that the console could not be opened. */
  failed(socket: WebSocket, message: string): void
  /** Reports how many bytes of input a program without a terminal has accepted. */
  taken(socket: WebSocket, bytes: number): void
  /** Reports, after all output of a program without a terminal, that the program has ended. */
  exited(socket: WebSocket, exitCode: number): void
  /** Warns that the console will end in `seconds` seconds if there is no input. */
  warn(socket: WebSocket, ending: ConsoleEnding, seconds: number): void
  closing(socket: WebSocket, ending: ConsoleEnding): void
}

const say = (socket: WebSocket, text: string): void => {
  if (socket.readyState === socket.OPEN) socket.send(text, { binary: false })
}

const status = (socket: WebSocket, state: string, more: object = {}): void =>
  say(socket, JSON.stringify({ type: 'status', state, ...more }))

/** Messages for clients with the protocol `berth.console.v1`. */
export const ownVoice: ConsoleVoice = {
  acknowledges: true,
  connecting: (socket) => status(socket, 'connecting'),
  ready: (socket, { resume, resumed, offset, replay }) =>
    status(socket, resumed ? 'resumed' : 'ready', { resume, offset, ...(resumed && { replay }) }),
  failed: (socket, message) => status(socket, 'failed', { message }),
  taken: (socket, bytes) => say(socket, JSON.stringify({ type: 'taken', bytes })),
  exited: (socket, exitCode) => status(socket, 'exited', { exit_code: exitCode }),
  warn: (socket, { reason }, seconds) => status(socket, 'closing', { reason, seconds }),
  closing: (socket, { code, reason }) => status(socket, 'closing', { code, reason, seconds: 0 }),
}

const nothing = (): void => undefined

/** Status text for terminal clients without `berth.console.v1`. Some clients send Enter only after such a line. */
export const terminalVoice: ConsoleVoice = {
  acknowledges: false,
  connecting: (socket) => say(socket, 'Connecting...\r\n'),
  ready: (socket) => say(socket, '\r\nSSH shell ready. Press Enter if the prompt is not visible.\r\n'),
  failed: (socket, message) => say(socket, `\r\nWebSSH connection failed: ${message}\r\n`),
  taken: nothing,
  exited: nothing,
  warn: nothing,
  closing: nothing,
}

/** Sends no messages, because clients of screens only understand RFB. */
export const screenVoice: ConsoleVoice = {
  acknowledges: false,
  connecting: nothing,
  ready: nothing,
  failed: nothing,
  taken: nothing,
  exited: nothing,
  warn: nothing,
  closing: nothing,
}
