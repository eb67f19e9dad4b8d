import { hostCommands } from '../catalog/host-commands.js'
import { commandOf, type Operation } from '../catalog/operation.js'
import { RefusedError } from '../../client/index.js'
import { usageError } from '../errors.js'
import type { PlannedRequest } from '../input/plan-request.js'
import type { Names } from './names.js'

/** @throws {CliError} `usage` if the command changes one of several hosts, and none is named */
export async function requireHost(operation: Operation, { query }: PlannedRequest, names: Names): Promise<void> {
  if (!hostCommands.has(commandOf(operation)) || query['host_id']) return
  const hosts = await names.list('host').catch((cause: unknown) => {
    if (cause instanceof RefusedError && cause.status === 403) return [] // the key cannot list hosts
    throw cause
  })
  if (hosts.length < 2) return
  throw usageError('missing: --host, because the fleet has several hosts', `one of: ${shortened(hosts)}`)
}

const maxNames = 20

function shortened(hosts: readonly { readonly name: string }[]): string {
  const names = hosts.slice(0, maxNames).map(({ name }) => name)
  return [...names, ...(hosts.length > maxNames ? ['…'] : [])].join(', ')
}
