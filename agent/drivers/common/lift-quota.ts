import { writeGroupFile, type CgroupLayout } from '../../host/process/cgroup.js'
import { isGone } from '../../host/process/proc.js'

/** Removes the cgroup's processor limit, because a throttled guest dies slowly. The caller deletes the cgroup later. */
export function liftQuota(cgroups: CgroupLayout, name: string): void {
  const group = `${cgroups.controllers.get('cpu') ?? ''}/${name}`
  try {
    if (cgroups.version === 1) writeGroupFile(group, 'cpu.cfs_quota_us', '-1')
    else writeGroupFile(group, 'cpu.max', 'max')
  } catch (error) {
    if (!isGone(error) && (error as NodeJS.ErrnoException).code !== 'EACCES') throw error
  }
}
