import type { sendUnaryData } from '@grpc/grpc-js'
import type { CertificateServiceServer } from '../../proto/gen/berth/agent/v1/certificate.js'
import { Mutex } from '../../shared/async/mutex.js'
import { toServiceError } from '../../shared/grpc-errors.js'
import { fingerprintOf } from '../../shared/identity.js'
import { installAuthorities } from '../enrollment/authorities.js'
import { createSigningRequest, installCertificate } from '../enrollment/renewal.js'
import type { AgentTls } from './tls.js'

/** Renews the agent's certificate and CAs, one call at a time. New connections use the new certificates. */
export function certificateService(identityDir: string, tls: AgentTls): CertificateServiceServer {
  const mutex = new Mutex()
  const inTurn = <T>(work: () => Promise<T>, callback: sendUnaryData<T>): void => {
    mutex.run(work).then(
      (value) => callback(null, value),
      (error: unknown) => callback(toServiceError(error, 'renew certificate')),
    )
  }
  return {
    createSigningRequest: (_call, callback) =>
      inTurn(async () => ({ csrPem: await createSigningRequest(identityDir), nowMs: Date.now() }), callback),
    installCertificate: (call, callback) =>
      inTurn(async () => {
        await installCertificate(identityDir, call.request.certificatePem)
        return { notAfterMs: tls.reload().notAfterMs }
      }, callback),
    installAuthorities: (call, callback) =>
      inTurn(async () => {
        await installAuthorities(identityDir, call.request.authorityPems)
        return { fingerprints: tls.reload().authorities.map(fingerprintOf) }
      }, callback),
  }
}
