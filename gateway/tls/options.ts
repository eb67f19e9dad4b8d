import { readFile } from 'node:fs/promises'
import { ConfigError } from '../../shared/errors.js'
import { splitHostPort } from '../../shared/join-token.js'
import type { GatewayConfig } from '../config.js'
import { isLoopback } from '../policy/source.js'
import type { ListenAddress } from '../sockets/listening-sockets.js'
import type { TlsOptions } from './tls.js'

/** Converts the configuration of TLS. @throws {ConfigError} if `acme.ca_file` cannot be read */
export async function tlsOptionsOf(
  config: GatewayConfig,
): Promise<Pick<TlsOptions, 'listen' | 'httpListen' | 'acme' | 'plainIsPublic'>> {
  const { directory, ca_file: caFile } = config.acme
  const { host } = splitHostPort(config.listen)
  return {
    listen: addressOf(config.tls_listen),
    httpListen: addressOf(config.http_listen),
    acme: { directory, caPem: caFile === '' ? '' : await readCa(caFile) },
    plainIsPublic: !(isLoopback(host) || host === 'localhost'),
  }
}

/** @returns undefined if the text is empty */
function addressOf(text: string): ListenAddress | undefined {
  return text === '' ? undefined : splitHostPort(text)
}

function readCa(path: string): Promise<string> {
  return readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    throw new ConfigError(`acme.ca_file: ${path}: ${cause.code ?? cause.message}`)
  })
}
