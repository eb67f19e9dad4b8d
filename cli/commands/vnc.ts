import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { pipeline } from 'node:stream/promises'
import { createWebSocketStream } from 'ws'
import { withInterrupt } from '../consoles/interrupt.js'
import { openConsoleSocket } from '../consoles/open-socket.js'
import { CliError, exitCodes } from '../errors.js'
import { parseWhole } from '../input/values.js'
import { readGuest, type Guest } from '../names/guest.js'
import { printable } from '../output/width.js'
import { openSession, type GlobalOptions, type Session } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export interface VncRun {
  readonly guest: string
  /** Local port as text; undefined: any free port. */
  readonly port: string | undefined
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

const localAddress = '127.0.0.1'

/** Forwards connections to a local port to the screen of a virtual machine, until Ctrl-C. */
export async function runVnc({ guest: text, port, options, surroundings }: VncRun): Promise<void> {
  const number = port === undefined ? 0 : parseWhole('--port', port, [1, 65_535])
  const session = await openSession(surroundings, options)
  const guest = await readGuest(session, text)
  if (guest.virtualization !== 'kvm')
    throw new CliError(exitCodes.conflict, 'only virtual machines have a screen', `use berth console ${guest.name}`)
  const server = createServer((viewer) => {
    forward(session, guest, viewer).catch((error: Error) =>
      surroundings.writeError(`berth: ${printable(error.message)}\n`),
    )
  })
  await listen(server, number)
  surroundings.endWithReader()
  const { port: used } = server.address() as AddressInfo
  surroundings.writeOut(`${localAddress}:${used}\n`)
  surroundings.writeError(`Connect a VNC viewer to this address to see ${guest.name}. Ctrl-C ends it.\n`)
  await withInterrupt((signal) => once(signal, 'abort'))
}

async function listen(server: Server, port: number): Promise<void> {
  server.listen(port, localAddress)
  await once(server, 'listening').catch((cause: Error) => {
    throw new CliError(exitCodes.failed, `port ${port} cannot be opened: ${cause.message}`)
  })
}

async function forward(session: Session, { uuid }: Guest, viewer: Socket): Promise<void> {
  viewer.on('error', () => undefined) // the viewer has disconnected, and the event `close` follows
  try {
    const socket = await openConsoleSocket(session, { kind: 'vnc', guest: uuid, protocol: 'binary' })
    socket.once('close', () => viewer.destroy())
    viewer.once('close', () => socket.close())
    const stream = createWebSocketStream(socket)
    await pipeline(viewer, stream, viewer)
  } finally {
    viewer.destroy()
  }
}
