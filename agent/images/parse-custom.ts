import type { AddCustomImageRequest } from '../../proto/gen/berth/agent/v1/image.js'
import { invalidField } from '../../shared/errors.js'
import { checkDescription, oneOf } from '../../shared/field-checks.js'
import {
  findArchitecture,
  imageNamePattern,
  imageWordPattern,
  isCustomImageId,
  sha256Pattern,
} from '../../shared/image-rules.js'
import { findUploaded } from './sources/uploaded.js'
import type { FirmwareWish } from '../host/guest/firmware.js'
import type { CatalogEntry, ImageType } from './catalog.js'
import { parseTargetUrl, type TargetPolicy } from '../../shared/outbound-targets.js'

/**
 * Parses an image that an administrator adds. The gateway has already checked the same rules, except those about the
 * servers that this host is allowed to contact.
 * @throws {BerthError} `invalid_field` that names the field
 */
export function parseCustom(request: AddCustomImageRequest, policy: TargetPolicy): CatalogEntry {
  const { id, name, description, distro, release, variant, url, sha256 } = request
  if (!isCustomImageId(id))
    throw invalidField('id', 'id: must be "custom-", then lower-case letters, digits, "." and "-"')
  const virtualization = oneOf('type', request.virtualization, ['lxc', 'kvm', 'iso'])
  const os = parseOs(request.os, virtualization)
  const machine = parseMachine(request, { virtualization, os })
  return {
    id,
    name: matching('name', name, imageNamePattern, '1 to 100 printable characters on one line'),
    distro: word('distro', distro),
    release: word('release', release),
    arch: parseArchitecture(request.arch),
    variant: variant === '' ? 'default' : word('variant', variant),
    description: checkDescription('description', description),
    virtualization,
    os,
    ...(machine === undefined ? {} : { machine }),
    source: {
      kind: 'url',
      url: findUploaded(url) === undefined ? parseTargetUrl(url, policy).href : url,
      sha256: matching('sha256', sha256, sha256Pattern, '64 hexadecimal digits').toLowerCase(),
    },
  }
}

function parseArchitecture(text: string): string {
  const known = findArchitecture(text)
  if (known === undefined) throw invalidField('arch', 'arch: must be amd64, arm64 or ppc64el')
  return known
}

function parseOs(text: string, virtualization: ImageType): 'linux' | 'windows' {
  const os = text === '' ? 'linux' : oneOf('os', text, ['linux', 'windows'])
  if (os === 'windows' && virtualization === 'lxc') throw invalidField('os', 'os: containers can only run linux')
  return os
}

/** Parses the machine profile. The default for Windows is UEFI. @throws {BerthError} `invalid_field` */
function parseMachine(
  { firmware: asked, secureBoot, tpm }: AddCustomImageRequest,
  { virtualization, os }: Pick<CatalogEntry, 'virtualization' | 'os'>,
): FirmwareWish | undefined {
  const word = asked === '' ? (os === 'windows' ? 'uefi' : 'bios') : asked
  const firmware = oneOf('firmware', word, ['bios', 'uefi'])
  if (secureBoot && firmware === 'bios') throw invalidField('secure_boot', 'secure_boot: requires firmware uefi')
  const isPlain = firmware === 'bios' && !tpm
  if (virtualization === 'kvm') return isPlain ? undefined : { firmware, secureBoot, tpm }
  const field = asked === '' ? 'tpm' : 'firmware'
  if (asked !== '' || tpm || secureBoot) throw invalidField(field, `${field}: only available for virtual machines`)
  return undefined
}

function word(field: string, text: string): string {
  return matching(field, text, imageWordPattern, '1 to 64 letters, digits, ".", "_", "+" or "-"')
}

function matching(field: string, text: string, pattern: string, meaning: string): string {
  if (!new RegExp(pattern, 'u').test(text)) throw invalidField(field, `${field}: must be ${meaning}`)
  return text
}
