import { open } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { parseListeners, type ListeningSocket } from '../net/listening-ports.js'

export type ConnectOutcome = 'open' | 'refused' | 'silent'

/** Finds facts about a guest without running anything inside it. */
export interface GuestProbe {
  /**
   * Lists the TCP sockets that wait for connections in the network namespace of a process.
   * @returns undefined if the process has ended
   */
  listListeners(pid: number): Promise<readonly ListeningSocket[] | undefined>
  /** Opens a TCP connection from the host and closes it at once. Returns `silent` if nothing answers in two seconds. */
  connect(address: string, port: number): Promise<ConnectOutcome>
}

export const hostProbe: GuestProbe = { listListeners, connect: tryConnection }

/** Maximum number of bytes that are read from a guest's list of sockets, because the list can have any length. */
const maxBytes = 1024 * 1024
const connectMs = 2000

async function listListeners(pid: number): Promise<readonly ListeningSocket[] | undefined> {
  const texts = await Promise.all(['tcp', 'tcp6'].map((name) => readBeginning(`/proc/${pid}/net/${name}`)))
  const there = texts.filter((text) => text !== undefined)
  return there.length === 0 ? undefined : there.flatMap((text) => parseListeners(text, 'tcp'))
}

/**
 * Reads the beginning of /proc/net/tcp. The kernel lists listening sockets before all others (tcp_seq_start), so
 * reading ends at the first other socket.
 */
async function readBeginning(path: string): Promise<string | undefined> {
  const file = await open(path).catch(() => undefined) // the process has ended, or has no IPv6
  if (!file) return undefined
  try {
    let text = ''
    const chunk = Buffer.alloc(64 * 1024)
    while (text.length < maxBytes && !hasConnections(text)) {
      const { bytesRead } = await file.read(chunk, 0, chunk.length)
      if (bytesRead === 0) break
      text += chunk.toString('latin1', 0, bytesRead)
    }
    return text
  } catch {
    return undefined // the process has ended
  } finally {
    await file.close()
  }
}

function hasConnections(text: string): boolean {
  const lastRow = text.slice(0, text.lastIndexOf('\n')).split('\n').at(-1) ?? ''
  const state = lastRow.trim().split(/\s+/)[3]
  return state !== undefined && /^[0-9A-F]{2}$/.test(state) && state !== '0A'
}

function tryConnection(address: string, port: number): Promise<ConnectOutcome> {
  return new Promise((resolve) => {
    const socket = createConnection({ host: address, port })
    const end = (outcome: ConnectOutcome): void => {
      socket.destroy()
      resolve(outcome)
    }
    socket.setTimeout(connectMs, () => end('silent'))
    socket.once('connect', () => end('open'))
    socket.once('error', ({ code }: NodeJS.ErrnoException) =>
      end(code === 'ECONNREFUSED' || code === 'ECONNRESET' ? 'refused' : 'silent'),
    )
  })
}
