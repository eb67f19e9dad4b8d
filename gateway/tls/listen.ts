import { BerthError, conflict } from '../../shared/errors.js'
import type { ListenAddress } from '../http/server.js'

/** Listens on all IPv4 and IPv6 addresses, or only on IPv4 if the host has no IPv6. */
export async function listenWide(listen: ListenAddress, on: (listen: ListenAddress) => Promise<void>): Promise<void> {
  try {
    await on(listen)
  } catch (cause) {
    const isWithout = ['EAFNOSUPPORT', 'EADDRNOTAVAIL'].includes((cause as NodeJS.ErrnoException).code ?? '')
    if (listen.host !== '::' || !isWithout) throw cause
    await on({ ...listen, host: '0.0.0.0' })
  }
}

/** Converts an error of listen(2) to a BerthError. */
export function listenError({ host, port }: ListenAddress, cause: unknown): BerthError {
  const at = `port ${port} of ${host}`
  const { code, message } = cause as NodeJS.ErrnoException
  if (code === 'EADDRINUSE') return conflict('port_conflict', `${at} is in use by another program`)
  if (code === 'EACCES') return conflict('port_denied', `the gateway is not permitted to listen on ${at}`)
  return conflict('port_denied', `the gateway cannot listen on ${at}: ${code ?? message}`)
}
