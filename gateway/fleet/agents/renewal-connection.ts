import { credentials, type ChannelCredentials } from '@grpc/grpc-js'
import { X509Certificate } from 'node:crypto'
import type { PeerCertificate, SecureContext, TLSSocket } from 'node:tls'
import { CertificateServiceClient } from '../../../proto/gen/berth/agent/v1/certificate.js'
import { createPeerCheck, identityDnsName, type CertificateIdentity } from '../../../shared/identity.js'
import { channelOptions, secureContextOf, type AgentConnection, type AgentTarget } from './agent-connection.js'

/** Number of days after a certificate's expiry in which its host can renew it, by proving that it has the key. */
export const renewableDays = 180

const renewableForMs = renewableDays * 86_400_000

/** A connection that can only be used to renew a certificate. */
export interface RenewalConnection extends Pick<AgentConnection, 'certificates' | 'peer'> {
  close(): void
}

/**
 * Connects to an agent whose certificate has expired or is not valid yet. TLS would reject such a certificate. Instead,
 * this function checks that a trusted CA issued it for this host, and that it is not revoked. TLS proves that the agent
 * has the certificate's key. The connection only allows the calls of a renewal.
 */
export function connectForRenewal(target: AgentTarget): RenewalConnection {
  const identity = { role: 'agent', hostId: target.hostId } as const
  const issuers = target.caPems.map((pem) => new X509Certificate(pem))
  const isRevoked = (serial: string): boolean => target.isRevoked(serial)
  const checkPeer = createPeerCheck({ identity, issuers, isRevoked, renewableForMs })
  let peer: CertificateIdentity | undefined
  const check = (certificate: PeerCertificate): void => {
    peer = checkPeer(certificate)
  }
  const channelCredentials = checkedCredentials(secureContextOf(target), check)
  const options = channelOptions(identityDnsName(identity), target.silenceMs)
  const certificates = new CertificateServiceClient(`dns:${target.address}`, channelCredentials, options)
  return { certificates, peer: () => peer, close: () => certificates.close() }
}

/** Creates credentials with which `check` verifies the peer's certificate in place of TLS, before anything is sent. */
function checkedCredentials(secureContext: SecureContext, check: (peer: PeerCertificate) => void): ChannelCredentials {
  const created = credentials.createFromSecureContext(secureContext, { rejectUnauthorized: false })
  const createConnector = created._createSecureConnector.bind(created)
  created._createSecureConnector = (...target) => {
    const connector = createConnector(...target)
    const connect = connector.connect.bind(connector)
    connector.connect = async (socket) => {
      const connected = await connect(socket)
      try {
        check((connected.socket as TLSSocket).getPeerCertificate())
      } catch (error) {
        connected.socket.destroy()
        throw error
      }
      return connected
    }
    return connector
  }
  return created
}
