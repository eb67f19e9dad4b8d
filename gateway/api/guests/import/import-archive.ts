import type { Guest } from '../../../../proto/gen/berth/agent/v1/guest.js'
import { BerthError, toBerthError } from '../../../../shared/errors.js'
import type { ArchiveUpload } from '../../../fleet/agent-contract.js'
import type { GuestCreation } from '../../../fleet/creation-contract.js'
import type { Fleet, HostView } from '../../../fleet/contract.js'
import { requireFeature } from '../../../fleet/require-feature.js'
import type { RequestContext } from '../../../http/route.js'
import { chooseHost } from '../../host-choice.js'
import type { CreationParts } from '../create/creations.js'
import { planInitialSettings } from '../create/initial-settings.js'
import { ArchiveBody } from './archive-body.js'
import { CallerCheck } from './caller-check.js'
import { portNotes } from './import-notes.js'
import type { ImportQuery } from './import-query.js'
import { OwnerAssignment } from './owner-assignment.js'
import { planImportSpec, type PlannedImport } from './plan-import-spec.js'

const gib = 1024 ** 3
/** Interval in ms between checks that the caller still may create containers. */
const recheckMs = 30_000
/** Time in ms to wait until a failed creation is undone, so that its name is free again. */
const undoMs = 10_000

type Context = RequestContext<unknown, ImportQuery, unknown>

/** A container whose files are complete. Its task still configures it. */
export interface ImportedContainer {
  readonly guest: Guest
  readonly hostId: string
  readonly receivedBytes: number
  readonly notes: readonly { readonly part: string; readonly reason: string }[]
}

/**
 * Creates a container from the archive in the body of a request. If the promise rejects, the creation is undone.
 * @throws {BerthError} the errors of the route
 */
export async function importArchive(parts: CreationParts, context: Context): Promise<ImportedContainer> {
  const body = new ArchiveBody(context.upload!)
  return create(parts, context, body).finally(() => body.close())
}

async function create(parts: CreationParts, context: Context, body: ArchiveBody): Promise<ImportedContainer> {
  const { caller, query, operationId } = context
  const planned = await plan(parts.fleet, context, await body.head())
  const { spec, notes } = planned
  const bytes = Number(context.headers['content-length'] ?? 0)
  refuseTooLong(bytes, spec.limits?.diskGb ?? 0)
  const { owner_id } = query
  const initial = await planInitialSettings(parts, owner_id === undefined ? {} : { owner_id }, caller)
  const owner = new OwnerAssignment({ initial, view: parts.fleet.view, log: context.log })
  const upload = new HostUpload(parts.fleet, { id: operationId, bytes })
  let creation: GuestCreation | undefined
  try {
    creation = await parts.fleet.createGuest({
      operationId,
      requestedBy: caller.user,
      name: planned.name,
      spec: { ...spec, importId: operationId },
      ...(query.host_id !== undefined && { hostId: query.host_id }),
      isFromArchive: true,
      prepare: async (guest) => {
        await upload.open(guest.hostId) // first, because it fails more often
        await owner.assign(guest)
      },
    })
    const guest = guestOf(creation)
    context.audit({ target: guest.name, containerUuid: guest.uuid })
    await sendChecked(upload, body, context)
    const { receivedBytes } = body
    return {
      guest,
      hostId: creation.hostId,
      receivedBytes,
      notes: [...notes, ...portNotes(spec.portMappings, guest.portMappings)],
    }
  } catch (error) {
    upload.cancel()
    context.audit({ target: planned.name })
    const mayExist = creation !== undefined || (upload.hostId !== '' && !isRefusal(error))
    if (mayExist) await parts.fleet.ended({ hostId: upload.hostId, operationId }, undoMs)
    await owner.revert()
    throw body.signal.aborted ? toBerthError(body.signal.reason, 'the import failed') : error
  }
}

/** Reads the manifest at a host, and plans the container. @throws {BerthError} `image_invalid`, `invalid_field` */
async function plan(fleet: Fleet, { query, caller }: Context, head: Buffer): Promise<PlannedImport> {
  const host = findReader(fleet, query.host_id)
  requireFeature(host, 'import-archive')
  const described = await fleet.agent(host.id).archives.describeArchive({
    head,
    name: query.name ?? '',
    vcpuMilli: Math.round((query.vcpu ?? 0) * 1000),
    ramMb: query.ram_mb ?? 0,
    diskGb: query.disk_gb ?? 0,
  })
  return planImportSpec(described, query, caller)
}

/** Returns the named host, or any host that can read archives. */
function findReader({ view }: Fleet, hostId: string | undefined): HostView {
  const able = view
    .hosts()
    .find(({ state, description }) => state === 'online' && description?.features.includes('import-archive'))
  return hostId === undefined && able ? able : chooseHost(view, hostId)
}

function refuseTooLong(bytes: number, diskGb: number): void {
  if (bytes <= diskGb * gib) return
  throw new BerthError(
    'conflict',
    'disk_too_small',
    `disk_gb: the archive has ${Math.ceil(bytes / gib)} GiB, and the disk only ${diskGb}`,
    { field: 'disk_gb' },
  )
}

/** True if the host has refused the order, so that there is no creation to undo. */
function isRefusal(error: unknown): boolean {
  return error instanceof BerthError && ['invalid', 'conflict', 'exhausted', 'not_found'].includes(error.kind)
}

function guestOf({ response: { guest } }: GuestCreation): Guest {
  if (guest) return guest
  throw new BerthError('internal', 'agent_error', 'the answer of the host does not contain the created container')
}

/** The upload to the host that was chosen last. */
class HostUpload {
  hostId = ''
  #open: ArchiveUpload | undefined

  constructor(
    private readonly fleet: Fleet,
    private readonly begin: { readonly id: string; readonly bytes: number },
  ) {}

  async open(hostId: string): Promise<void> {
    this.cancel()
    this.#open = await this.fleet.agent(hostId).receiveArchive(this.begin)
    this.hostId = hostId
  }

  send(...sending: Parameters<ArchiveUpload['send']>): Promise<void> {
    return this.#open!.send(...sending)
  }

  cancel(): void {
    this.#open?.cancel()
    this.#open = undefined
  }
}

/** Sends the archive. Ends if the client disconnects, or if the caller may no longer create containers. */
async function sendChecked(upload: HostUpload, body: ArchiveBody, { recheck }: Context): Promise<void> {
  const check = new CallerCheck(recheck)
  const timer = setInterval(() => void check.run(), recheckMs)
  try {
    await upload.send(body.parts(), AbortSignal.any([body.signal, check.signal]))
  } finally {
    clearInterval(timer)
  }
}
