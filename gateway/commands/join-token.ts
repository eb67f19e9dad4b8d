import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { BerthError, ConfigError } from '../../shared/errors.js'
import { OutboundClient, readText } from '../../shared/outbound-request.js'
import type { GatewayConfig } from '../config.js'
import { localUrl } from './local-url.js'

const timeoutMs = 30_000
const maxAnswerBytes = 16 * 1024 * 1024

interface HostRow {
  readonly id: string
  readonly name: string
  readonly address: string
}

/**
 * Creates a join token for the agent on this host, with the API of the running gateway. Finds the host by its id or
 * address, or creates it with the local host name.
 * @param address host:port at which the gateway reaches the agent
 * @param known id of the host as which the agent has joined; "": it has not joined
 * @throws {ConfigError} if the key cannot be read
 * @throws {BerthError} the error of the gateway, or `gateway_unreachable`
 */
export async function createLocalToken(
  config: GatewayConfig,
  { keyFile, address, known }: { keyFile: string; address: string; known: string },
): Promise<string> {
  const api = await LocalApi.open(config, keyFile)
  try {
    const hosts = await api.ask<HostRow[]>('GET', '/hosts')
    const host = hosts.find(({ id }) => id === known) ?? hosts.find((row) => row.address === address)
    const path = host ? `/hosts/${host.id}/join-token` : '/hosts'
    const body = host ? {} : { name: freeName(hosts), address }
    return (await api.ask<{ join_token: string }>('POST', path, body)).join_token
  } finally {
    api.close()
  }
}

/** Returns the local host name, with a number if another host has this name. */
export function freeName(hosts: readonly Pick<HostRow, 'name'>[], machine = hostname()): string {
  const taken = new Set(hosts.map(({ name }) => name.toLowerCase()))
  const base =
    machine
      .toLowerCase()
      .split('.')[0]!
      .replaceAll(/[^a-z0-9-]/g, '')
      .slice(0, 24) || 'host'
  for (let n = 1; ; n++) {
    const name = n === 1 ? base : `${base}-${n}`
    if (!taken.has(name)) return name
  }
}

/** Calls the API of the local gateway with the operator's key. */
class LocalApi {
  readonly #client = new OutboundClient({ timeouts: { connectMs: timeoutMs, headersMs: timeoutMs, bodyMs: timeoutMs } })

  private constructor(
    private readonly url: string,
    private readonly key: string,
  ) {}

  static async open(config: GatewayConfig, keyFile: string): Promise<LocalApi> {
    const key = await readFile(keyFile, 'utf8').catch((cause: unknown) => {
      throw new ConfigError(`cannot read ${keyFile}`, { cause })
    })
    return new LocalApi(`${localUrl(config)}/api/v1`, key.trim())
  }

  /** Sends a request. @returns `data` of the answer */
  async ask<T>(method: string, path: string, body?: object): Promise<T> {
    const headers = { 'x-api-key': this.key, ...(body && { 'content-type': 'application/json' }) }
    const order = { method, headers, ...(body && { body: JSON.stringify(body) }) }
    const answer = await this.#client.send(`${this.url}${path}`, order).catch((cause: unknown) => {
      throw new BerthError('unavailable', 'gateway_unreachable', `the gateway does not answer at ${this.url}`, {
        cause,
      })
    })
    const text = await readText(answer.body, maxAnswerBytes)
    const { code, message, data } = JSON.parse(text) as { code?: string; message?: string; data?: T }
    if (answer.status >= 300 || data === undefined)
      throw new BerthError(
        'forbidden',
        code ?? 'refused',
        message ?? `the gateway answered with HTTP status ${answer.status}`,
      )
    return data
  }

  close(): void {
    this.#client.close()
  }
}
