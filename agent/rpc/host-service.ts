import type { Logger } from 'pino'
import type { HostDescription, HostServiceServer } from '../../proto/gen/berth/agent/v1/host.js'
import { unary } from './unary.js'

export function createHostService(describe: () => HostDescription, log: Logger): HostServiceServer {
  return { describe: unary(log, 'describe', () => ({ host: describe() })) }
}
