import { enableClassicQuotas, kernelHasSimpleQuota, startRescan, type BtrfsView } from '../host/disk/btrfs.js'
import { enableSimpleQuotas } from '../host/disk/btrfs-ioctl.js'

/**
 * Simple: counts the data that a subvolume wrote itself. Classic: counts all data it references, including its image's.
 */
export type Quota = 'simple' | 'classic'

/** Label of filesystems that the agent created. Only these get features that older kernels cannot mount. */
export const poolLabel = 'berth-pool'

/**
 * Enables quotas; an enabled mode stays. Uses simple quotas (linux 6.7) on the agent's own filesystems: with classic
 * ones, deleting a clone makes the kernel walk all references of every shared extent (100 clones: 112 s of one core,
 * against 0.6 s).
 */
export async function ensureQuota(path: string, view: BtrfsView): Promise<Quota> {
  if ((await view.quotaMode()) === 'off') {
    const ours = (await view.label()) === poolLabel
    const enable = ours && (await kernelHasSimpleQuota()) ? enableSimpleQuotas : enableClassicQuotas
    await enable(path)
  }
  if ((await view.quotaMode()) === 'simple') return 'simple'
  await view.accountEverySubtree()
  if (await view.quotaInconsistent()) await startRescan(path)
  return 'classic'
}
