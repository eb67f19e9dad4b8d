import type { Server } from 'node:net'
import { BerthError, conflict } from '../../shared/errors.js'
import { listenOn, type ListenAddress, type ListeningSockets } from '../sockets/listening-sockets.js'

/**
 * Listens on all addresses of both families, or only of IPv4 on a host without IPv6.
 * @throws {BerthError} `port_conflict`, `port_denied`
 */
export async function listenWide(
  server: Server,
  { listen, sockets }: { readonly listen: ListenAddress; readonly sockets?: ListeningSockets | undefined },
): Promise<void> {
  const on = (address: ListenAddress) => (sockets ? sockets.listen(server, address) : listenOn(server, address))
  try {
    await on(listen)
  } catch (cause) {
    const isWithout = ['EAFNOSUPPORT', 'EADDRNOTAVAIL'].includes((cause as NodeJS.ErrnoException).code ?? '')
    if (listen.host !== '::' || !isWithout) throw listenError(listen, cause)
    await on({ ...listen, host: '0.0.0.0' }).catch((error: unknown) => {
      throw listenError(listen, error)
    })
  }
}

function listenError({ host, port }: ListenAddress, cause: unknown): BerthError {
  const at = `port ${port} of ${host}`
  const { code, message } = cause as NodeJS.ErrnoException
  if (code === 'EADDRINUSE') return conflict('port_conflict', `${at} is in use by another program`)
  if (code === 'EACCES') return conflict('port_denied', `the gateway is not permitted to listen on ${at}`)
  return conflict('port_denied', `the gateway cannot listen on ${at}: ${code ?? message}`)
}
