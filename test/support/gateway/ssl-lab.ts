import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { request as httpRequest } from 'node:http'
import { expect } from 'chai'
import { freePort } from '../ports.js'
import { startTestGateway, type Reply, type TestGateway } from './test-gateway.js'
import { shownCertificate } from './tls-client.js'
import { TestAuthority } from './tls-material.js'

/** The name that the certificates are for. */
export const name = 'panel.example'

/** A gateway that serves HTTPS after a test has enabled it. It trusts the root of a test CA. */
export class SslLab {
  gateway!: TestGateway
  authority!: TestAuthority
  readonly ports = { http: 0, tls: 0 }

  async start(): Promise<void> {
    this.authority = await TestAuthority.create()
    Object.assign(this.ports, { http: await freePort(), tls: await freePort() })
    this.gateway = await startTestGateway({
      trustedProxies: ['127.0.0.7'],
      tls: {
        listen: { host: '127.0.0.1', port: this.ports.tls },
        httpListen: { host: '127.0.0.1', port: this.ports.http },
        roots: [this.authority.rootPem],
      },
    })
  }

  close(): Promise<void> {
    return this.gateway.close()
  }

  put = (body: object, options = {}): Promise<Reply> => this.gateway.request('PUT', '/ssl', { body, ...options })
  get = async (): Promise<Reply['body']> => (await this.gateway.request('GET', '/ssl')).body.data
  shown = async (): Promise<string> =>
    (await shownCertificate({ host: '127.0.0.1', port: this.ports.tls }, name)).fingerprint256
  upload = async (more: object = {}): Promise<Reply> => {
    const { certPem, keyPem } = await this.authority.issue(name)
    return this.put({ mode: 'uploaded', target: name, cert_pem: certPem, key_pem: keyPem, ...more })
  }
  off = async (): Promise<void> => {
    expect((await this.put({ enabled: false })).status).to.equal(200)
  }

  /** Sends a request over TLS, and checks the certificate against the root of the test CA. */
  overTls = (path: string, options: { agent?: HttpsAgent } = {}) =>
    new Promise<{ status: number; hsts: string | undefined }>((resolve, reject) => {
      const target = {
        host: '127.0.0.1',
        port: this.ports.tls,
        servername: name,
        path,
        ca: this.authority.rootPem,
      }
      const headers = { 'x-api-key': this.gateway.adminKey, host: name }
      httpsRequest({ ...target, headers, ...options }, (response) => {
        response.resume()
        response.once('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            hsts: response.headers['strict-transport-security'],
          }),
        )
      })
        .once('error', reject)
        .end()
    })

  /** Sends a request to the HTTP port of the gateway, which is not port 80 in tests. */
  overHttp = (path: string, host: string, method = 'GET') =>
    new Promise<{ status: number; location: string | undefined }>((resolve, reject) => {
      httpRequest({ host: '127.0.0.1', port: this.ports.http, path, method, headers: { host } }, (response) => {
        response.resume()
        resolve({ status: response.statusCode ?? 0, location: response.headers.location })
      })
        .once('error', reject)
        .end()
    })

  isRefused = (port: number): Promise<boolean> =>
    shownCertificate({ host: '127.0.0.1', port }).then(
      () => false,
      (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED',
    )
}
