import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeSelfSigned } from '../../../gateway/tls/keys.js'
import { ask, createClient } from '../ask.js'
import { freePort } from '../ports.js'
import { waitFor } from '../wait.js'

export interface PebbleOptions {
  /** Ports to which the server connects for the validation of a name. */
  readonly httpPort: number
  readonly tlsPort: number
  /** Environment variables PEBBLE_* of the server's process. */
  readonly env?: Record<string, string>
}

/** The ACME server of Debian's package `pebble`, and a name server that resolves every name to 127.0.0.1. */
export class Pebble {
  readonly #children: ChildProcess[] = []
  #config = ''

  private constructor(
    readonly port: number,
    private readonly directory: string,
    private readonly options: PebbleOptions,
    private readonly dns: number,
  ) {}

  static async start(options: PebbleOptions): Promise<Pebble> {
    const directory = mkdtempSync('/tmp/btest-pebble-')
    const pebble = new Pebble(await freePort(), directory, options, await freePort())
    await pebble.#prepare()
    await pebble.run()
    return pebble
  }

  get url(): string {
    return `https://127.0.0.1:${this.port}/dir`
  }

  /** The self-signed certificate of the ACME server's own HTTPS interface. */
  get caPem(): string {
    return readFileSync(join(this.directory, 'own.pem'), 'utf8')
  }

  async #prepare(): Promise<void> {
    const own = await makeSelfSigned('127.0.0.1')
    const [certificate, privateKey] = [join(this.directory, 'own.pem'), join(this.directory, 'own.key')]
    writeFileSync(certificate, own.chainPem)
    writeFileSync(privateKey, own.keyPem)
    const { httpPort, tlsPort } = this.options
    const pebble = {
      listenAddress: `127.0.0.1:${this.port}`,
      managementListenAddress: `127.0.0.1:${await freePort()}`,
      certificate,
      privateKey,
      httpPort,
      tlsPort,
      ocspResponderURL: '',
      externalAccountBindingRequired: false,
    }
    this.#config = join(this.directory, 'config.json')
    writeFileSync(this.#config, JSON.stringify({ pebble }))
    const none = ['-http01', '', '-https01', '', '-tlsalpn01', '', '-defaultIPv6', '']
    const names = ['-dns01', `127.0.0.1:${this.dns}`, '-defaultIPv4', '127.0.0.1']
    this.#start('pebble-challtestsrv', [...none, ...names, '-management', `127.0.0.1:${await freePort()}`])
  }

  /** Starts the ACME server without any earlier state. */
  async run(): Promise<void> {
    this.#start('pebble', ['-config', this.#config, '-dnsserver', `127.0.0.1:${this.dns}`])
    const client = createClient({ tls: { ca: this.caPem } })
    await waitFor(
      () =>
        ask(client, this.url).then(
          ({ status }) => status === 200,
          () => false,
        ),
      { what: 'pebble answers' },
    )
    client.close()
  }

  #start(program: string, args: string[]): void {
    const env = {
      PATH: process.env['PATH'],
      PEBBLE_VA_NOSLEEP: '1',
      PEBBLE_AUTHZREUSE: '0',
      ...this.options.env,
    }
    this.#children.push(spawn(program, args, { env, stdio: 'ignore' }))
  }

  /** Kills only the ACME server; the name server continues. */
  async kill(): Promise<void> {
    const child = this.#children.pop()!
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
  }

  async stop(): Promise<void> {
    while (this.#children.length > 0) await this.kill()
    rmSync(this.directory, { recursive: true, force: true })
  }
}
