import { connect, type Socket } from 'node:net'
import type { Terminal, TerminalListener } from '../host/pty.js'

interface Shared {
  readonly socket: Socket
  readonly listeners: Set<TerminalListener>
}

/** A connection of its own to a Unix socket. */
export function openSocket(path: string, listener: TerminalListener): Terminal {
  const socket = connect(path)
  socket.on('data', (chunk: Buffer) => listener.onData(chunk))
  socket.on('error', () => undefined) // the guest is gone, which `close` tells
  socket.on('close', () => listener.onExit(-1))
  return {
    write: (bytes) => void socket.write(bytes, () => listener.onTaken(bytes.length)),
    resize: () => undefined,
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    close: () => void socket.destroy(),
  }
}

/**
 * Terminals on Unix sockets that take one connection only, as QEMU's serial ports: all users of a socket see the same
 * output, and what each of them types goes in. Nobody can pause it.
 */
export class SocketTerminals {
  readonly #open = new Map<string, Shared>()

  open(path: string, listener: TerminalListener): Terminal {
    const shared = this.#open.get(path) ?? this.#connect(path)
    shared.listeners.add(listener)
    return {
      write: (bytes) => void shared.socket.write(bytes, () => listener.onTaken(bytes.length)),
      resize: () => undefined,
      pause: () => undefined,
      resume: () => undefined,
      close: () => {
        shared.listeners.delete(listener)
        if (shared.listeners.size === 0) shared.socket.destroy()
      },
    }
  }

  #connect(path: string): Shared {
    const shared: Shared = { socket: connect(path), listeners: new Set() }
    this.#open.set(path, shared)
    shared.socket.on('data', (chunk: Buffer) => shared.listeners.forEach(({ onData }) => onData(chunk)))
    shared.socket.on('error', () => undefined) // the guest is gone, which `close` tells
    shared.socket.on('close', () => {
      if (this.#open.get(path) === shared) this.#open.delete(path)
      for (const { onExit } of [...shared.listeners]) onExit(-1)
    })
    return shared
  }
}
