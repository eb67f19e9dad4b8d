import type { Socket } from 'node:net'
import { BerthError, conflict, invalidField, notFound } from '../../shared/errors.js'
import { readResponse, requestFrame, type ConsoleResponse } from '../../shared/console-frames.js'
import type { ConsoleStart } from '../../proto/gen/berth/agent/v1/console.js'
import type { ConsoleMode } from '../drivers/contract.js'
import type { GuestContext } from '../guests/context.js'
import { checkAllowed } from '../guests/policy/policy.js'
import type { GuestRecord } from '../guests/record/record.js'
import type { ConsoleConnections } from './console-process.js'
import { consoleLimits, type ConsoleUser, type HoldRequest, type OpenConsole, type Size } from './contract.js'
import { checkProgram } from '../../shared/program-rules.js'
import { FrameReader, frameOf } from '../../shared/framing.js'
import { Holder } from './holder.js'
import { hangUp, openSocket } from './socket-terminal.js'

export interface AgentConsolesParts {
  readonly context: GuestContext
  readonly connections: ConsoleConnections
  readonly keepMs: number
}

const modes: readonly string[] = ['shell', 'serial', 'vnc', 'run'] satisfies ConsoleMode[]

/** Modes of consoles that users can resume after their connection was lost. Other consoles end with the connection. */
const resumable: readonly ConsoleMode[] = ['shell', 'serial']

/**
 * Opens consoles of this host's guests. A separate process holds terminals (modes `shell` and `serial`) and programs
 * without a terminal (mode `run`). The agent itself forwards screens (mode `vnc`), because they cannot be resumed.
 */
export class AgentConsoles {
  readonly #screens = new Holder((place, _size, listener) => {
    if (place.kind !== 'socket')
      throw new Error('the driver of the guest returned a terminal instead of a socket for the screen')
    return openSocket(place.path, listener)
  })

  constructor(private readonly parts: AgentConsolesParts) {}

  /**
   * Opens or resumes a console, and sends `opened` to its user.
   * @throws {BerthError} `invalid_field`, `not_found`, `invalid_state`, `policy_blocked`, `unsupported`,
   * `console_gone`, `too_many_consoles`, `agent_error`
   */
  async open(start: ConsoleStart, user: ConsoleUser): Promise<OpenConsole> {
    const { context } = this.parts
    const record = context.store.find(start.guestUuid)
    if (!record) throw notFound('container')
    checkUsable(record)
    const mode = parseMode(start.mode)
    const command = mode === 'run' ? checkProgram(start.command) : []
    const place = await context.machines.driverOf(record).findConsole(context.machines.of(record), mode, command)
    const keepMs = start.keep && resumable.includes(mode) ? this.parts.keepMs : 0
    const request: HoldRequest = {
      guestUuid: record.uuid,
      principal: checkText('principal', start.principal, 200),
      share: checkText('share', start.share, 200) || start.principal,
      unlimited: start.unlimited,
      resume: checkText('resume', start.resume, 64),
      received: start.received ?? null,
      size: parseSize(start.size),
      place,
      keepMs,
      limits: consoleLimits,
    }
    const told = { ...user, send: (response: ConsoleResponse) => user.send(this.#explain(record, response)) }
    if (mode === 'vnc') return this.#screens.open(request, told)
    return hold(await this.parts.connections.connect(), request, told)
  }

  /** If the console's guest no longer runs, replaces the reason `ended` with `guest_stopped` or `guest_deleted`. */
  #explain({ uuid }: GuestRecord, response: ConsoleResponse): ConsoleResponse {
    if (response.$case !== 'exit' || response.value.reason !== 'ended') return response
    const now = this.parts.context.store.find(uuid)
    if (now?.status === 'running') return response
    const reason = !now || now.status === 'deleting' ? 'guest_deleted' : 'guest_stopped'
    return { $case: 'exit', value: { ...response.value, reason } }
  }
}

function checkUsable(record: GuestRecord): void {
  checkAllowed(record)
  if (record.status !== 'running')
    throw conflict('invalid_state', `the container has no console: it is ${record.status}`)
}

function parseMode(text: string): ConsoleMode {
  if (modes.includes(text)) return text as ConsoleMode
  throw invalidField('mode', 'mode: must be shell, serial, vnc or run')
}

/** Checks a size, which must be from 1 to 1000 columns and rows. Default: 80 by 24. */
export function parseSize(size: Size | undefined): Size {
  const { columns, rows } = size ?? { columns: 80, rows: 24 }
  if ([columns, rows].some((count) => !Number.isInteger(count) || count < 1 || count > 1000))
    throw invalidField('size', 'size: columns and rows must be integers from 1 to 1000')
  return { columns, rows }
}

function checkText(field: string, text: string, maxLength: number): string {
  if (text.length <= maxLength && /^[\x21-\x7e]*$/.test(text)) return text
  throw invalidField(field, `${field}: must be at most ${maxLength} ASCII characters without spaces`)
}

/** Opens a console in the console process, which is at the other end of the socket. */
function hold(socket: Socket, request: HoldRequest, user: ConsoleUser): Promise<OpenConsole> {
  return new Promise((resolve, reject) => {
    const reader = new FrameReader()
    let opened = false
    let ended = false
    const open: OpenConsole = {
      receive: (message) => {
        if (socket.writable) socket.write(requestFrame(message))
      },
      leave: () => hangUp(socket),
    }
    const take = (content: Buffer, isBytes: boolean): void => {
      const message = readResponse(content, isBytes)
      if (message?.$case === 'exit' && message.value.reason === 'refused')
        return reject(refusalOf(message.value.detail))
      if (message?.$case === 'opened') {
        opened = true
        resolve(open)
      }
      ended ||= message?.$case === 'exit'
      if (message) user.send(message)
    }
    socket.on('data', (chunk: Buffer) => {
      try {
        reader.push(chunk, take)
      } catch {
        socket.destroy() // the console process has another protocol version; the event `close` follows
      }
    })
    socket.on('error', () => undefined) // the event `close`, which follows, handles the end
    socket.on('close', () => {
      reject(new BerthError('internal', 'agent_error', 'the console process ended'))
      if (opened && !ended) user.send(lost)
      if (opened) user.end()
    })
    socket.write(frameOf(Buffer.from(JSON.stringify(request))))
  })
}

const lost: ConsoleResponse = {
  $case: 'exit',
  value: { code: -1, reason: 'failed', detail: 'the console process ended' },
}

/** Kinds of the error codes with which the console process refuses a request. */
const kinds: Readonly<Record<string, BerthError['kind']>> = {
  console_gone: 'not_found',
  too_many_consoles: 'exhausted',
}

function refusalOf(detail: string): BerthError {
  const [code = '', ...words] = detail.split(' ')
  const kind = kinds[code]
  return kind ? new BerthError(kind, code, words.join(' ')) : new BerthError('internal', 'agent_error', detail)
}
