import { Type, type Static } from 'typebox'
import { isBound, type Principal } from '../../access/principal.js'
import type { FleetView, TemplateView } from '../../fleet/contract.js'
import { listAnswer, listQuery } from '../../http/list.js'
import { route, type Route } from '../../http/route.js'
import { imageTypeName, ImageTypeSchema } from '../guests/guest-row.js'
import { chooseHost, getNamedHost, HostQuerySchema } from '../hosts/host-choice.js'
import { canBeUsedBy, isOfGuests } from './templates.js'

const count = Type.Integer({ minimum: 0 })

export const ImageSchema = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    type: ImageTypeSchema,
    downloaded: Type.Boolean(),
    enabled: Type.Boolean({ description: 'Containers may be made from it.' }),
    downloading: Type.Boolean({ description: 'It is being built or downloaded, or is about to be.' }),
    progress: Type.Number({
      minimum: 0,
      maximum: 100,
      description: 'Of that, in per cent; 100: downloaded.',
    }),
    size_bytes: Type.Integer({ minimum: 0, description: 'Once it is there.' }),
    host_id: Type.String(),
    distro: Type.String(),
    release: Type.String(),
    arch: Type.String(),
    variant: Type.String(),
    description: Type.String(),
    os: Type.String(),
    source: Type.String({ description: '`built`, `simplestreams` or `url`.' }),
    custom: Type.Boolean({ description: 'It was added by `POST /images/custom`.' }),
    supported: Type.Boolean({ description: 'The host can use it.' }),
    unsupported_reason: Type.String({ description: 'Why it cannot.' }),
    received_bytes: Type.Integer({ minimum: 0, description: 'Of a download, while it lasts.' }),
    total_bytes: Type.Integer({ minimum: 0, description: '0: not known.' }),
    bytes_per_sec: count,
    error: Type.String({ description: 'Code of what the last download failed with; empty: it did not.' }),
    url: Type.String({ description: 'Of a custom one.' }),
    sha256: Type.String(),
  },
  { title: 'Image' },
)
type ImageRow = Static<typeof ImageSchema>

const EnabledImageSchema = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    distro: Type.String(),
    release: Type.String(),
    arch: Type.String(),
    variant: Type.String(),
    description: Type.String(),
    type: ImageTypeSchema,
  },
  { title: 'EnabledImage' },
)
type EnabledRow = Static<typeof EnabledImageSchema>

const sortable = ['id', 'name', 'type', 'distro', 'release', 'size_bytes', 'progress'] as const
const enabledSortable = ['id', 'name', 'type', 'distro', 'release'] as const
const textFilter = Type.String({ maxLength: 64 })

export function imageRoutes(view: FleetView): Route[] {
  return [
    route({
      method: 'GET',
      path: '/images',
      name: 'listImages',
      subUser: 'refused',
      sortable,
      scope: 'image:read',
      bound: 'own',
      tag: 'Images',
      summary: 'Images of a host, those that are not there too',
      query: listQuery({
        ...{ host_id: HostQuerySchema.properties.host_id, type: ImageTypeSchema, distro: textFilter },
        ...{ downloaded: Type.Boolean(), enabled: Type.Boolean(), downloading: Type.Boolean() },
        ...{ custom: Type.Boolean(), supported: Type.Boolean() },
      }),
      data: Type.Array(ImageSchema),
      errors: ['host_offline'],
      handle: ({ caller, query }) =>
        listAnswer(imageRows(view, caller, chooseHost(view, query.host_id).id), query, {
          sortable,
          filters: ['type', 'distro', 'downloaded', 'enabled', 'downloading', 'custom', 'supported'],
        }),
    }),
    route({
      method: 'GET',
      path: '/images/enabled',
      name: 'listEnabledImages',
      subUser: 'allowed',
      sortable: enabledSortable,
      scope: 'image:read',
      bound: 'own',
      tag: 'Images',
      summary:
        'Images that are there, on one host at least, and that containers may be made from; CDs and rescue systems where `type` asks for them',
      query: listQuery({ host_id: textFilter, type: ImageTypeSchema, distro: textFilter }),
      data: Type.Array(EnabledImageSchema),
      handle: ({ caller, query }) =>
        listAnswer(enabledRows(view, caller, query), query, {
          sortable: enabledSortable,
          filters: ['type', 'distro'],
        }),
    }),
  ]
}

function imageRows(view: FleetView, caller: Principal, hostId: string): ImageRow[] {
  const found = [...view.templates()].filter((template) => template.hostId === hostId)
  return found.map((template) => imageRow(template, caller)).sort(byId)
}

interface Asked {
  readonly host_id?: string
  readonly type?: string
}

/** One row for each id, whichever hosts have it. */
function enabledRows(view: FleetView, caller: Principal, { host_id: hostId, type }: Asked): EnabledRow[] {
  if (hostId !== undefined) getNamedHost(view, hostId)
  const rows = new Map<string, EnabledRow>()
  for (const found of view.templates())
    if (
      (hostId ?? found.hostId) === found.hostId &&
      (type !== undefined || isOfGuests(found)) &&
      found.template.available &&
      canBeUsedBy(caller, found)
    )
      rows.set(found.template.id, enabledRow(found))
  return [...rows.values()].sort(byId)
}

function enabledRow({ template }: TemplateView): EnabledRow {
  const { id, name, distro, release, arch, variant, description } = template
  const type = imageTypeName(template.virtualization)
  return { id, name, distro, release, arch, variant, description, type }
}

/** Where a custom image comes from may be a secret: those who are bound to some containers do not see it. */
export function imageRow({ hostId, template }: TemplateView, caller: Principal): ImageRow {
  const { id, name, distro, release, arch, variant, description, os, source, custom } = template
  const { available, downloading, unsupported, sizeBytes, progress } = template
  const { url, sha256 } = isBound(caller) ? { url: '', sha256: '' } : template
  return {
    ...{ id, name, type: imageTypeName(template.virtualization), downloaded: available },
    ...{ enabled: !template.disabled, downloading, size_bytes: sizeBytes, host_id: hostId },
    progress: available ? 100 : downloading ? progress : 0,
    ...{ distro, release, arch, variant, description, os, source, custom },
    ...{ supported: unsupported === '', unsupported_reason: unsupported },
    received_bytes: template.receivedBytes,
    total_bytes: template.totalBytes,
    bytes_per_sec: template.bytesPerSec,
    ...{ error: template.failure, url, sha256 },
  }
}

function byId(a: { readonly id: string }, b: { readonly id: string }): number {
  return a.id < b.id ? -1 : 1
}
