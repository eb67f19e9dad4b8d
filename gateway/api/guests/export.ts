import { pipeline } from 'node:stream/promises'
import type { Readable } from 'node:stream'
import type { ServerResponse } from 'node:http'
import { Type } from 'typebox'
import { BerthError, notFound } from '../../../shared/errors.js'
import type { AuditLog } from '../../access/contract.js'
import { isBound, maySee, type Principal } from '../../access/principal.js'
import type { Fleet, GuestView } from '../../fleet/contract.js'
import { requireFeature } from '../../fleet/require-feature.js'
import { route, type RequestContext, type Route, type Subjects } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import { ContainerPathSchema } from './containers.js'

export interface ExportParts {
  readonly fleet: Fleet
  readonly audit: Pick<AuditLog, 'begin' | 'finish'>
}

const QuerySchema = Type.Object({
  compression: Type.Optional(oneOf(['zstd', 'gzip'], 'Compression of the archive. Default: `zstd`.')),
})

type Compression = 'zstd' | 'gzip'
type Context = RequestContext<unknown, unknown, unknown> & Subjects['guest']

const suffixes: Readonly<Record<Compression, string>> = { zstd: 'tar.zst', gzip: 'tar.gz' }

/** Interval in ms between checks that the caller still may read the guest. */
const recheckMs = 30_000
/** Time in ms after which a client that takes no data is disconnected. */
const stallMs = 60_000

export function exportRoute(parts: ExportParts): Route {
  return route({
    method: 'GET',
    path: '/containers/{id}/export',
    name: 'exportContainer',
    scope: 'backup:restore',
    bound: 'guest',
    subUser: 'refused',
    tag: 'Backups',
    summary:
      'Exports the settings and the files of an LXC container as a tar archive. The archive is sent while it is made, from a snapshot that is deleted afterwards. It is complete only if the answer ends without an error',
    params: ContainerPathSchema,
    query: QuerySchema,
    produces: 'application/octet-stream',
    errors: [
      ...['unsupported', 'policy_blocked', 'agent_outdated', 'invalid_state', 'resource_exhausted'],
      ...['storage_full', 'store_unavailable', 'host_offline', 'agent_timeout'],
    ],
    handle: async (context) => {
      const compression = context.query.compression ?? 'zstd'
      refuseBlocked(context.caller, context.guest)
      const { stream, cancel } = await begin(parts, context, compression)
      const { name } = context.guest.guest
      return {
        headers: {
          'Content-Type': 'application/octet-stream',
          'Content-Disposition': `attachment; filename="${name}.${suffixes[compression]}"`,
        },
        stream,
        unused: cancel,
      }
    },
  })
}

/** @throws {BerthError} `unsupported` for a virtual machine, `policy_blocked` if the caller may not export it */
function refuseBlocked(caller: Principal, { guest }: GuestView): void {
  if (guest.virtualization !== 'lxc')
    throw new BerthError('invalid', 'unsupported', 'only LXC containers can be exported, and not virtual machines')
  if ((guest.policyBlocked || guest.suspension) && isBound(caller))
    throw new BerthError('forbidden', 'policy_blocked', `the container is blocked: ${guest.policyReason}`)
}

/** Begins the export and its audit entry, which is finished when the export ends. */
async function begin({ fleet, audit }: ExportParts, context: Context, compression: Compression) {
  const { caller, guest, address, requestId, log } = context
  const { uuid, name } = guest.guest
  const host = fleet.view.findHost(guest.hostId)
  if (host) requireFeature(host, 'export')
  const entry = await audit.begin({ action: 'container.export', caller, address, requestId, target: name })
  const finish = (success: boolean, detail: string): Promise<void> =>
    audit
      .finish(entry, { success, target: name, detail, containerUuid: uuid })
      .catch((err: unknown) => log.error({ err }, 'could not write the result of an export to the audit log'))
  const order = { uuid, compression, includeLabels: !isBound(caller) }
  const body = await fleet
    .agent(guest.hostId)
    .exportGuest(order)
    .catch(async (error: unknown) => {
      await finish(false, (error as Error).message)
      throw error
    })
  return {
    stream: (response: ServerResponse) => void send(body, { response, context, fleet, finish }),
    cancel: () => {
      body.destroy()
      void finish(false, 'the client did not read the archive')
    },
  }
}

interface Sending {
  readonly response: ServerResponse
  readonly context: Context
  readonly fleet: Fleet
  readonly finish: (success: boolean, detail: string) => Promise<void>
}

/** Sends the archive as fast as the client reads it. If this fails, closes the connection without ending the answer. */
async function send(body: Readable, { response, context, fleet, finish }: Sending): Promise<void> {
  const { uuid } = context.guest.guest
  const recheck = async (): Promise<void> => {
    const caller = await context.recheck()
    if (!maySee(caller, uuid)) throw notFound('container')
    const guest = fleet.view.findGuest(uuid)
    if (guest) refuseBlocked(caller, guest)
  }
  const timer = setInterval(() => void recheck().catch((error: Error) => body.destroy(error)), recheckMs)
  response.setTimeout(stallMs, () => response.destroy())
  let bytes = 0
  body.on('data', (part: Buffer) => (bytes += part.length))
  try {
    await pipeline(body, response)
    await finish(true, `${bytes} bytes`)
  } catch (error) {
    await finish(false, `ended after ${bytes} bytes: ${(error as Error).message}`)
  } finally {
    clearInterval(timer)
  }
}
