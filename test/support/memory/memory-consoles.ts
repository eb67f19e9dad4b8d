import { once } from 'node:events'
import { connect, type AddressInfo, type Server, type Socket } from 'node:net'
import type { ConsoleConnections } from '../../../agent/console/console-process.js'
import { Holder } from '../../../agent/console/holder.js'
import { serveConsoles } from '../../../agent/console/serve.js'
import type { Terminal, TerminalListener } from '../../../agent/host/process/pty.js'

/** The guest's side of a console, which a test controls. */
export class MemoryTerminal implements Terminal {
  input = ''
  /** False while the guest accepts no input. */
  takes = true
  paused = false
  closed = false
  hasInputEnded = false
  readonly sizes: string[]
  readonly guestUuid: string
  /** Program with its arguments, in the mode `run`. */
  readonly command: readonly string[]

  /** @param args uuid of the guest, then the command */
  constructor(
    [guestUuid = '', ...command]: readonly string[],
    readonly mode: string,
    size: { columns: number; rows: number },
    private readonly listener: TerminalListener,
  ) {
    this.guestUuid = guestUuid
    this.command = command
    this.sizes = [`${size.columns}x${size.rows}`]
  }

  write(bytes: Buffer): void {
    this.input += bytes.toString()
    if (this.takes) this.listener.onTaken(bytes.length)
  }

  endInput(): void {
    this.hasInputEnded = true
  }

  resize(columns: number, rows: number): void {
    this.sizes.push(`${columns}x${rows}`)
  }

  pause(): void {
    this.paused = true
  }

  resume(): void {
    this.paused = false
  }

  close(): void {
    this.closed = true
  }

  show(text: string | Buffer): void {
    this.listener.onData(Buffer.from(text))
  }

  exit(code = 0): void {
    this.listener.onExit(code)
  }
}

/** Holds consoles in the process of the test, instead of a separate process. The consoles stay when the agent ends. */
export class MemoryConsoles implements ConsoleConnections {
  /** All terminals that were opened, the newest last. */
  readonly terminals: MemoryTerminal[] = []
  /** An error that is thrown instead of connecting. */
  failure: Error | undefined
  #server: Server | undefined
  readonly holder = new Holder((place, size, listener) => {
    if (place.kind !== 'program') throw new Error('no program')
    const terminal = new MemoryTerminal(place.args, place.program, size, listener)
    this.terminals.push(terminal)
    return terminal
  })

  async connect(): Promise<Socket> {
    if (this.failure) throw this.failure
    this.#server ??= await listen(this.holder)
    const socket = connect((this.#server.address() as AddressInfo).port, '127.0.0.1')
    socket.setNoDelay()
    await once(socket, 'connect')
    return socket
  }
}

async function listen(holder: Holder): Promise<Server> {
  const server = serveConsoles(holder, { onConnection: () => undefined, onEnd: () => holder.closeAll() })
  server.on('connection', (socket) => socket.setNoDelay())
  server.unref().listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}
