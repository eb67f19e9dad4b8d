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
import type { CatalogEntry, Virtualization } from './catalog.js'
import { parseImageUrl, type TargetPolicy } from './sources/targets.js'

/**
 * An image that an administrator adds. The gateway checked the same rules; which targets are asked is the host's to say.
 * @throws {BerthError} `invalid_field` of the field
 */
export function parseCustom(request: AddCustomImageRequest, policy: TargetPolicy): CatalogEntry {
  const { id, name, description, distro, release, variant, url, sha256 } = request
  if (!isCustomImageId(id)) throw invalidField('id', 'id: malformed')
  const virtualization = oneOf('type', request.virtualization, ['lxc', 'kvm'])
  return {
    id,
    name: matching('name', name, imageNamePattern, '1 to 100 printable characters on one line'),
    distro: word('distro', distro),
    release: word('release', release),
    arch: parseArchitecture(request.arch),
    variant: variant === '' ? 'default' : word('variant', variant),
    description: checkDescription('description', description),
    virtualization,
    os: parseOs(request.os, virtualization),
    source: {
      kind: 'url',
      url: parseImageUrl(url, policy).href,
      sha256: matching('sha256', sha256, sha256Pattern, '64 hexadecimal digits').toLowerCase(),
    },
  }
}

function parseArchitecture(text: string): string {
  const known = findArchitecture(text)
  if (known === undefined) throw invalidField('arch', 'arch: must be amd64, arm64 or ppc64el')
  return known
}

function parseOs(text: string, virtualization: Virtualization): 'linux' | 'windows' {
  const os = text === '' ? 'linux' : oneOf('os', text, ['linux', 'windows'])
  if (os === 'windows' && virtualization === 'lxc') throw invalidField('os', 'os: containers run linux alone')
  return os
}

function word(field: string, text: string): string {
  return matching(field, text, imageWordPattern, '1 to 64 letters, digits, ".", "_", "+" or "-"')
}

function matching(field: string, text: string, pattern: string, meaning: string): string {
  if (!new RegExp(pattern, 'u').test(text)) throw invalidField(field, `${field}: must be ${meaning}`)
  return text
}
