import { Type, type Static } from 'typebox'
import { isBound, type Principal } from '../../access/principal.js'
import type { FleetView, TemplateView } from '../../fleet/contract.js'
import { listAnswer, listQuery } from '../../http/list.js'
import { route, type Route } from '../../http/route.js'
import { chooseHost, getNamedHost, HostQuerySchema } from '../host-choice.js'
import { imageTypeFields, imageTypeFilters, imageTypeRow, matchesType, type TypeQuery } from './image-kind.js'
import { canBeUsedBy, isOfGuests } from './templates.js'

const count = Type.Integer({ minimum: 0 })

export const ImageSchema = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    ...imageTypeFields,
    downloaded: Type.Boolean(),
    enabled: Type.Boolean({ description: '`true`: new containers can be created from the image.' }),
    downloading: Type.Boolean({
      description: '`true`: the build or download is running or queued.',
    }),
    progress: Type.Number({
      minimum: 0,
      maximum: 100,
      description: 'Progress of the build or download in percent. 100: downloaded.',
    }),
    size_bytes: Type.Integer({
      minimum: 0,
      description: 'Size of the downloaded image in bytes. 0: it is not downloaded.',
    }),
    host_id: Type.String(),
    distro: Type.String(),
    release: Type.String(),
    arch: Type.String(),
    variant: Type.String(),
    description: Type.String(),
    os: Type.String(),
    source: Type.String({
      description:
        'Source of the image. `built`: it is built on the host. `simplestreams`: it is downloaded from an image server. `url`: it is downloaded from the URL of a custom image.',
    }),
    custom: Type.Boolean({ description: '`true`: the image was added by `POST /images/custom`.' }),
    supported: Type.Boolean({ description: '`true`: the host `host_id` can use the image.' }),
    unsupported_reason: Type.String({
      description: 'Reason why the host cannot use the image. Empty: the host can use it.',
    }),
    received_bytes: Type.Integer({
      minimum: 0,
      description: 'Number of bytes that the running download has received.',
    }),
    total_bytes: Type.Integer({ minimum: 0, description: 'Size of the running download in bytes. 0: not known.' }),
    bytes_per_sec: count,
    error: Type.String({ description: 'Error code of the last build or download. Empty: it did not fail.' }),
    url: Type.String({ description: 'URL of a custom image. Empty for other images.' }),
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
    ...imageTypeFields,
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
      summary: 'Lists all images of a host or of all hosts, whether they are downloaded or not',
      query: listQuery({
        host_id: HostQuerySchema.properties.host_id,
        all_hosts: Type.Boolean({ description: '`true`: images of all hosts. `host_id` is then ignored.' }),
        ...imageTypeFilters,
        distro: textFilter,
        downloaded: Type.Boolean(),
        enabled: Type.Boolean(),
        downloading: Type.Boolean(),
        custom: Type.Boolean(),
        supported: Type.Boolean(),
      }),
      data: Type.Array(ImageSchema),
      errors: ['host_offline'],
      handle: ({ caller, query }) =>
        listAnswer(imageRows(view, caller, query), query, {
          sortable,
          filters: ['distro', 'downloaded', 'enabled', 'downloading', 'custom', 'supported'],
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
        'Lists the enabled images that are downloaded on at least one host. Without `kind`: images from which containers can be created. With `kind`: CDs or rescue systems',
      query: listQuery({ host_id: textFilter, ...imageTypeFilters, distro: textFilter }),
      data: Type.Array(EnabledImageSchema),
      handle: ({ caller, query }) =>
        listAnswer(enabledRows(view, caller, query), query, {
          sortable: enabledSortable,
          filters: ['distro'],
        }),
    }),
  ]
}

function imageRows(
  view: FleetView,
  caller: Principal,
  query: ImageQuery & { readonly all_hosts?: boolean },
): ImageRow[] {
  const hostId = query.all_hosts ? undefined : chooseHost(view, query.host_id).id
  const found = [...view.templates()].filter(
    ({ hostId: at, template }) => (hostId ?? at) === at && matchesType(template.virtualization, query),
  )
  return found.map((template) => imageRow(template, caller)).sort(byId)
}

type ImageQuery = TypeQuery & { readonly host_id?: string }

function enabledRows(view: FleetView, caller: Principal, query: ImageQuery): EnabledRow[] {
  const { host_id: hostId, type, kind } = query
  if (hostId !== undefined) getNamedHost(view, hostId)
  const rows = new Map<string, EnabledRow>()
  for (const found of view.templates())
    if (
      (hostId ?? found.hostId) === found.hostId &&
      (kind !== undefined || type !== undefined || isOfGuests(found)) &&
      matchesType(found.template.virtualization, query) &&
      found.template.available &&
      canBeUsedBy(caller, found)
    )
      rows.set(found.template.id, enabledRow(found))
  return [...rows.values()].sort(byId)
}

function enabledRow({ template }: TemplateView): EnabledRow {
  const { id, name, distro, release, arch, variant, description } = template
  const type = imageTypeRow(template.virtualization)
  return { id, name, distro, release, arch, variant, description, ...type }
}

/** Converts an image to a row. Callers restricted to some guests do not see the source, which can be secret. */
export function imageRow({ hostId, template }: TemplateView, caller: Principal): ImageRow {
  const { id, name, distro, release, arch, variant, description, os, source, custom } = template
  const { available, downloading, unsupported, sizeBytes, progress } = template
  const { url, sha256 } = isBound(caller) ? { url: '', sha256: '' } : template
  return {
    id,
    name,
    ...imageTypeRow(template.virtualization),
    downloaded: available,
    enabled: !template.disabled,
    downloading,
    size_bytes: sizeBytes,
    host_id: hostId,
    progress: available ? 100 : downloading ? progress : 0,
    distro,
    release,
    arch,
    variant,
    description,
    os,
    source,
    custom,
    supported: unsupported === '',
    unsupported_reason: unsupported,
    received_bytes: template.receivedBytes,
    total_bytes: template.totalBytes,
    bytes_per_sec: template.bytesPerSec,
    error: template.failure,
    url,
    sha256,
  }
}

function byId(a: { readonly id: string }, b: { readonly id: string }): number {
  return a.id < b.id ? -1 : 1
}
