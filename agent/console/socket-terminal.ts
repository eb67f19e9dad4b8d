import { connect, type Socket } from 'node:net'
import { addInput, type Terminal, type TerminalListener } from '../host/process/pty.js'

/** Time in ms from the half-close of a connection to its close, so that the program at the socket reads all input. */
const lastReadMs = 1000

interface SharedSocket {
  readonly socket: Socket
  readonly listeners: Set<TerminalListener>
}

/** Opens a separate connection to a Unix socket. */
export function openSocket(path: string, listener: TerminalListener): Terminal {
  const socket = connect(path)
  const input = new SocketInput(socket, listener)
  socket.on('data', (chunk: Buffer) => listener.onData(chunk))
  socket.on('error', () => undefined) // the guest has ended: the event `close` reports it
  socket.on('close', () => listener.onExit(-1))
  return {
    write: (bytes) => input.write(bytes),
    resize: () => undefined,
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    close: () => {
      input.flush()
      hangUp(socket)
    },
  }
}

/**
 * Opens terminals on Unix sockets that accept only one connection, such as QEMU's serial ports. All users of a socket
 * share the connection: each of them gets all output and can write input. The output cannot be paused.
 */
export class SocketTerminals {
  readonly #open = new Map<string, SharedSocket>()

  open(path: string, listener: TerminalListener): Terminal {
    const shared = this.#open.get(path) ?? this.#connect(path)
    shared.listeners.add(listener)
    const input = new SocketInput(shared.socket, listener)
    return {
      write: (bytes) => input.write(bytes),
      resize: () => undefined,
      pause: () => undefined,
      resume: () => undefined,
      close: () => {
        input.flush()
        shared.listeners.delete(listener)
        if (shared.listeners.size === 0) this.#leave(path, shared)
      },
    }
  }

  #connect(path: string): SharedSocket {
    const shared: SharedSocket = { socket: connect(path), listeners: new Set() }
    this.#open.set(path, shared)
    shared.socket.on('data', (chunk: Buffer) => shared.listeners.forEach(({ onData }) => onData(chunk)))
    shared.socket.on('error', () => undefined) // the guest has ended: the event `close` reports it
    shared.socket.on('close', () => {
      this.#forget(path, shared)
      for (const { onExit } of [...shared.listeners]) onExit(-1)
    })
    return shared
  }

  #leave(path: string, shared: SharedSocket): void {
    this.#forget(path, shared) // the next user opens a new connection
    hangUp(shared.socket)
  }

  #forget(path: string, shared: SharedSocket): void {
    if (this.#open.get(path) === shared) this.#open.delete(path)
  }
}

/** Buffers and writes the input of one user of a socket. */
class SocketInput {
  readonly #waiting: Buffer[] = []
  #isWriting = false

  constructor(
    private readonly socket: Socket,
    private readonly listener: TerminalListener,
  ) {}

  write(bytes: Buffer): void {
    addInput(this.#waiting, bytes)
    if (!this.#isWriting) this.flush()
  }

  flush(): void {
    const bytes = Buffer.concat(this.#waiting.splice(0))
    if (bytes.length === 0) return
    this.#isWriting = true
    this.socket.write(bytes, () => {
      this.#isWriting = false
      this.listener.onTaken(bytes.length)
      this.flush()
    })
  }
}

/**
 * Half-closes a connection, and closes it after a timeout. After a half-close, QEMU still reads all data that was sent
 * before; at a close, it drops unread data.
 */
export function hangUp(socket: Socket): void {
  socket.removeAllListeners('data').resume().end()
  setTimeout(() => socket.destroy(), lastReadMs).unref()
}
