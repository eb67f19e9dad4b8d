import 'reflect-metadata'
import { Pkcs10CertificateRequestGenerator } from '@peculiar/x509'
import { createPrivateKey, createPublicKey, generateKeyPairSync, webcrypto } from 'node:crypto'

/* This module needs libraries of 5 MB. It is loaded only to request a certificate, which happens every few weeks. */

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

export function createPrivateKeyPem(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
}

/** Creates a request in PEM (PKCS #10) that proves possession of the key. The gateway sets the certificate's names. */
export async function createCsrPem(privateKeyPem: string): Promise<string> {
  const key = createPrivateKey(privateKeyPem)
  const request = await Pkcs10CertificateRequestGenerator.create(
    {
      name: 'O=Berth',
      keys: {
        privateKey: await importKey('pkcs8', key.export({ type: 'pkcs8', format: 'der' }), 'sign'),
        publicKey: await importKey('spki', createPublicKey(key).export({ type: 'spki', format: 'der' }), 'verify'),
      },
      signingAlgorithm: algorithm,
    },
    webcrypto,
  )
  return request.toString('pem')
}

function importKey(format: 'pkcs8' | 'spki', der: Buffer, usage: 'sign' | 'verify'): Promise<webcrypto.CryptoKey> {
  return webcrypto.subtle.importKey(format, der, algorithm, true, [usage])
}
