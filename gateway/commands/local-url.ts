import { splitHostPort } from '../../shared/join-token.js'
import type { GatewayConfig } from '../config.js'

/** URL at which the gateway on this host serves HTTP. */
export function localUrl({ listen }: Pick<GatewayConfig, 'listen'>): string {
  const { host, port } = splitHostPort(listen)
  const local = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '[::1]' : host.includes(':') ? `[${host}]` : host
  return `http://${local}:${port}`
}
