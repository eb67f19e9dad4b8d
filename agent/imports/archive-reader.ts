import type { AgentConfig } from '../config.js'
import { adaptNetwork, checkSystem } from '../images/adapt.js'
import { planFreeUserIds } from '../images/image-settings.js'
import { unpackStream } from '../images/sources/unpack.js'
import { BerthError } from '../../shared/errors.js'
import type { ArchiveReader } from './contract.js'
import { importTooSmall } from './import-errors.js'
import { readManifest } from './read-manifest.js'

/** Time in ms for reading a manifest. The gateway waits for it, and the client of the gateway. */
const manifestTimeoutMs = 20_000

/** Reads archives in the sandbox of unpacked archives. */
export function openArchiveReader({ lxc, storage }: Pick<AgentConfig, 'lxc' | 'storage'>): ArchiveReader {
  return {
    readManifest: (head, signal) => {
      const sandbox = { directory: storage.pool, hostIdBase: planFreeUserIds(lxc), timeoutMs: manifestTimeoutMs }
      return readManifest(head, sandbox, signal)
    },
    unpack: async (parts, target, signal) => {
      const order = { target, hostIdBase: planFreeUserIds(lxc), keepsUserAttributes: true }
      try {
        await unpackStream(order, parts, signal)
      } catch (error) {
        throw error instanceof BerthError && error.code === 'image_too_large' ? importTooSmall(error) : error
      }
      await checkSystem(target)
      await adaptNetwork(target)
    },
  }
}
