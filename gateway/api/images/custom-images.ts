import { Type, type Static } from 'typebox'
import { conflict } from '../../../shared/errors.js'
import { descriptionPattern } from '../../../shared/guest-rules.js'
import {
  customImageId,
  imageNamePattern,
  imageUrlPattern,
  imageWordPattern,
  sha256Pattern,
} from '../../../shared/image-rules.js'
import type { AddCustomImageRequest } from '../../../proto/gen/berth/agent/v1/image.js'
import type { Fleet } from '../../fleet/contract.js'
import type { CustomImages } from '../../images/custom-images.js'
import { numeric, trimmed } from '../../http/normalize.js'
import { route, type Route } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import { chooseHost } from '../host-choice.js'
import { doneFields, givenId, holdersOf, hostField, IdSchema, onHosts } from './image-hosts.js'
import { imageRow, ImageSchema } from './images.js'

const wordSchema = (meaning: string) =>
  Type.String({
    ...trimmed,
    ...numeric,
    pattern: imageWordPattern,
    description: `${meaning}: 1 to 64 letters, digits, ".", "_", "+" and "-".`,
  })

const CustomBodySchema = Type.Object(
  {
    type: oneOf(
      ['lxc', 'kvm', 'iso'],
      '`lxc` and `kvm`: an image for new containers of this virtualization. `iso`: a CD that virtual machines boot through `PUT /containers/{id}/boot`.',
    ),
    name: Type.String({
      ...trimmed,
      pattern: imageNamePattern,
      description: 'Name of the image: 1 to 100 printable characters on one line.',
    }),
    description: Type.Optional(
      Type.String({
        pattern: descriptionPattern,
        description: 'Description of the image: at most 200 printable characters on one line.',
      }),
    ),
    distro: wordSchema('Distribution of the image, such as `debian`'),
    release: wordSchema('Release of the distribution, such as `bookworm`'),
    arch: Type.String({
      ...trimmed,
      maxLength: 32,
      description: 'CPU architecture: `amd64` (`x86_64`), `arm64` (`aarch64`), …',
    }),
    url: Type.String({
      ...trimmed,
      pattern: imageUrlPattern,
      examples: ['https://images.example.org/alpine.tar.xz'],
      description:
        'https or http URL of the file. For `lxc`: an archive of a root file system (tar, optionally compressed with gzip, bzip2, xz or zstd). For `kvm`: a disk image. For `iso`: a CD image. Hosts only connect to public addresses, and only through https, unless their configuration allows more. `upload:NAME` instead of a URL: the file NAME, which must be copied into the directory `uploads` of each host before the download.',
    }),
    sha256: Type.String({
      ...trimmed,
      pattern: sha256Pattern,
      examples: ['ab'.repeat(32)],
      description: 'SHA-256 checksum of the file, 64 hexadecimal digits.',
    }),
    variant: Type.Optional(wordSchema('Variant of the image, such as `default`')),
    os: Type.Optional(
      oneOf(
        ['linux', 'windows'],
        'Operating system of the image. Default: `linux`. For containers with `windows`, SSH keys are ignored and the first port mapping leads to port 3389.',
      ),
    ),
    firmware: Type.Optional(
      oneOf(['bios', 'uefi'], 'Firmware of virtual machines. Default: `uefi` for `windows`, else `bios`.'),
    ),
    secure_boot: Type.Optional(
      Type.Boolean({
        description:
          '`true`: secure boot is on, so that the firmware only boots systems signed by Microsoft. Requires the firmware `uefi`.',
      }),
    ),
    tpm: Type.Optional(Type.Boolean({ description: '`true`: each virtual machine has its own TPM 2.0.' })),
    ...hostField,
  },
  { title: 'CustomImage' },
)
type CustomBody = Static<typeof CustomBodySchema>

const LooseIdSchema = Type.Partial(Type.Object({ id: IdSchema, ...hostField }))

const ofCustom = { bound: 'refused', tag: 'Images' } as const
const errors = ['host_offline', 'agent_timeout']

export interface CustomImageParts {
  readonly fleet: Fleet
  readonly customImages: CustomImages
}

export function customImageRoutes(parts: CustomImageParts): Route[] {
  return [addRoute(parts), removeRoute(parts)]
}

function addRoute({ fleet, customImages }: CustomImageParts): Route {
  return route({
    ...ofCustom,
    method: 'POST',
    path: '/images/custom',
    name: 'addCustomImage',
    scope: 'image:download',
    audit: 'image.custom_add',
    summary:
      'Adds an image from a URL, either to one host or to all current and future hosts. It is downloaded by `POST /images/download` or at its first use',
    query: Type.Object(hostField),
    body: CustomBodySchema,
    example: {
      type: 'lxc',
      name: 'Alpine with our tools',
      description: '',
      distro: 'alpine',
      release: '3.22',
      arch: 'amd64',
      url: 'https://images.example.org/alpine.tar.xz',
      sha256: 'ab'.repeat(32),
    },
    data: ImageSchema,
    more: doneFields,
    statuses: [201],
    errors: ['name_conflict', 'resource_exhausted', ...errors],
    handle: async (context) => {
      const { body, caller, operationId, query } = context
      const request = planCustom(body, operationId)
      context.audit({ target: request.id, detail: `${body.name}, sha256 ${body.sha256}` })
      const named = body.host_id ?? query.host_id
      const { more, unsettled } = await onHosts(fleet, context, hostsOf(fleet, named), (host) =>
        fleet.agent(host).images.addCustomImage(request),
      )
      // The image is stored only after at least one host has accepted it.
      if (named === undefined) await customImages.add(request)
      const [shown] = holdersOf(fleet.view, request.id, more.hosts[0])
      if (!shown) throw conflict('invalid_state', 'the image was removed in the meantime')
      return { status: 201, message: 'image added', data: imageRow(shown, caller), more, unsettled }
    },
  })
}

function removeRoute({ fleet, customImages }: CustomImageParts): Route {
  return route({
    ...ofCustom,
    method: 'DELETE',
    path: '/images/custom',
    name: 'removeCustomImage',
    scope: 'image:delete',
    audit: 'image.custom_remove',
    summary:
      'Removes a custom image from the list and deletes its downloaded data. Containers that were created from it are kept',
    query: LooseIdSchema,
    body: LooseIdSchema,
    bodyOptional: true,
    example: { id: 'custom-alpine-with-our-tools-0123456789ab' },
    more: doneFields,
    errors: ['invalid_state', 'task_running', 'image_in_use', 'not_found', ...errors],
    handle: async (context) => {
      const { id, hostId } = givenId('id', context)
      context.audit({ target: id })
      const held = holdersOf(fleet.view, id, hostId)
      if (held.every(({ template }) => !template.custom))
        throw conflict('invalid_state', 'only custom images can be removed')
      const asked = held.map((found) => found.hostId)
      // The image is removed from the store first. Otherwise, a periodic task could add it to all hosts again.
      if (hostId === undefined) await customImages.remove(id)
      else await customImages.leaveOut(id, hostId)
      const { more, unsettled } = await onHosts(fleet, context, asked, (host) =>
        fleet.agent(host).images.removeCustomImage({ id }),
      )
      return { message: 'image removed', more, unsettled }
    },
  })
}

/** Returns the named host or all hosts that have joined. @throws {BerthError} `invalid_field`, `host_offline` */
function hostsOf({ view }: Fleet, hostId: string | undefined): string[] {
  const joined = view.hosts().filter(({ state }) => state !== 'pending')
  return hostId === undefined && joined.length > 0 ? joined.map(({ id }) => id) : [chooseHost(view, hostId).id]
}

function planCustom(body: CustomBody, operationId: string): AddCustomImageRequest {
  const { type, name, description = '', distro, release, arch, url, sha256, variant = '', os = '' } = body
  const { firmware = '', secure_boot: secureBoot = false, tpm = false } = body
  const named = { id: customImageId(name, operationId), virtualization: type, name, description, distro }
  return { ...named, release, arch, url, sha256, variant, os, firmware, secureBoot, tpm }
}
