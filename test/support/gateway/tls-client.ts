import { connect, type PeerCertificate, type TLSSocket } from 'node:tls'

/** Resolves with the certificate that a local port presents for a name. */
export function shownCertificate(
  { host, port }: { host: string; port: number },
  servername = '',
): Promise<PeerCertificate> {
  return new Promise((resolve, reject) => {
    const socket: TLSSocket = connect({ host, port, servername, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate())
      socket.destroy()
    })
    socket.once('error', reject)
  })
}
