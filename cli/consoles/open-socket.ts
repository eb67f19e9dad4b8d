import { WebSocket } from 'ws'
import type { Session } from '../session.js'

export interface ConsoleRequest {
  readonly kind: 'ssh' | 'vnc'
  /** UUID of the guest. */
  readonly guest: string
  /** `berth.console.v1`, or `binary` for a screen. */
  readonly protocol: string
  /** Program with its arguments, for the mode `run`. */
  readonly command?: readonly string[]
  readonly query?: Readonly<Record<string, string>>
}

/** Requests a ticket and opens the socket of a console. The caller handles its events. @throws {CliError} */
export async function openConsoleSocket({ client }: Session, request: ConsoleRequest): Promise<WebSocket> {
  const { kind, guest, protocol, command, query } = request
  const content = { container: guest, ...(command && { command }) }
  const { body } = await client.send({ method: 'POST', path: `/${kind}-ticket`, body: content })
  const { ticket } = body.data as { ticket: string }
  const { url, ca } = client.connection
  const address = `${url.replace(/^http/, 'ws')}/api/v1/${kind}?${new URLSearchParams({ container: guest, ...query }).toString()}`
  return new WebSocket(address, [protocol, `berth-ticket.${ticket}`], {
    origin: new URL(url).origin,
    perMessageDeflate: false,
    ...(ca && { ca }),
  })
}
