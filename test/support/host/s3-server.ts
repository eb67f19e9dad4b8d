import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import S3rver from 's3rver'
import type { S3Place } from '../../../proto/gen/berth/agent/v1/backup.js'

const bucket = 'berth'
/** Id and secret of the only access key that the server accepts. */
const key = 'S3RVER'

/** A hook that a test sets for requests. It returns true if it has answered the request itself. */
type Twist = (request: IncomingMessage, response: ServerResponse) => boolean

/** An S3 server over TLS at a loopback port, with a certificate of its own. */
export class TestS3 {
  twist: Twist = () => false

  private constructor(
    private readonly server: Server,
    /** Directory that contains the stored objects. */
    readonly directory: string,
    private readonly certificate: string,
  ) {}

  static async start(directory: string): Promise<TestS3> {
    mkdirSync(directory, { recursive: true })
    const [keyFile, certFile] = [join(directory, 'key.pem'), join(directory, 'cert.pem')]
    const subject = ['-subj', '/CN=btest', '-addext', 'subjectAltName=IP:127.0.0.1']
    const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
    execFileSync('openssl', ['req', '-x509', ...kind, '-keyout', keyFile, '-out', certFile, ...subject], {
      stdio: 'ignore',
    })
    const kept = join(directory, 'kept')
    const app = new S3rver({ silent: true, directory: kept, configureBuckets: [{ name: bucket }] })
    await app.configureBuckets()
    const handle = app.callback()
    const cert = readFileSync(certFile, 'utf8')
    const server = createServer({ key: readFileSync(keyFile), cert }, (request, response) => {
      if (!made.twist(request, response)) void handle(request, response)
    })
    const made = new TestS3(server, kept, cert)
    await made.listen(0)
    return made
  }

  get place(): S3Place {
    const { port } = this.server.address() as AddressInfo
    return {
      endpoint: `https://127.0.0.1:${port}`,
      region: '',
      bucket,
      prefix: 'kept/here',
      accessKeyId: key,
      secretAccessKey: key,
      caCertificate: this.certificate,
    }
  }

  listen(port: number): Promise<void> {
    return new Promise((done) => this.server.listen(port, '127.0.0.1', () => done()))
  }

  async close(): Promise<void> {
    const closed = new Promise((done) => this.server.close(done))
    this.server.closeAllConnections()
    await closed
  }
}
