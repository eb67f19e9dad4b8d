import type { DescribeArchiveRequest, DescribeArchiveResponse } from '../../proto/gen/berth/agent/v1/archive.js'
import { BerthError } from '../../shared/errors.js'
import type { ExportManifest } from '../exports/manifest.js'
import { manifestName } from '../images/sources/container-export.js'
import { planExport } from './plan-export.js'
import { planGuest } from './plan-import.js'

type Choices = Omit<DescribeArchiveRequest, 'head'>

/**
 * Plans the guest of an archive. Host ports are not checked, because the host is chosen later.
 * @param manifest undefined if the archive has none
 * @throws {BerthError} `image_invalid`, `invalid_field`
 */
export function planArchive(manifest: ExportManifest | undefined, choices: Choices): DescribeArchiveResponse {
  if (!manifest)
    throw new BerthError(
      'invalid',
      'image_invalid',
      `the archive does not begin with ${manifestName}: only archives of exported containers can be imported`,
    )
  const { name, spec, notes } = planGuest(planExport(manifest), chosen(choices), {
    usedBytes: 0,
    isArchive: false,
    isFree: () => true,
    hasAddress: () => true,
  })
  return { name, spec, notes: [...notes] }
}

/** Returns the values of the request. Empty ones are those of the manifest. */
function chosen({ name, vcpuMilli, ramMb, diskGb }: Choices) {
  return {
    ...(name !== '' && { name }),
    ...(vcpuMilli !== 0 && { vcpu: vcpuMilli / 1000 }),
    ...(ramMb !== 0 && { ramMb }),
    ...(diskGb !== 0 && { diskGb }),
  }
}
