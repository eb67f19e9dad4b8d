import { createHash } from 'node:crypto'
import { readKernelFile } from '../process/proc.js'

/** Limits for all users of a guest together. */
export interface NamespaceBounds {
  /** Files of /proc/sys/user and their values; files that the kernel lacks are skipped. */
  readonly counts: Readonly<Record<string, number>>
  /** Values by number of the resource (linux/resource.h), for resources that are counted by namespace. */
  readonly resources: Readonly<Record<number, number>>
}

/**
 * Arguments of perl/start-guest.pl after the log file. It starts a container whose user namespace has these limits. If
 * its process already has this filter from an earlier start, it adds no second one. Filters cannot be removed, and the
 * kernel would refuse the hundredth of a guest that keeps rebooting.
 * @param filter seccomp program for the container and its monitor, bytes of struct sock_filter
 */
export function namespaceArguments(bounds: NamespaceBounds, filter: Buffer): string[] {
  const limits = [...Object.entries(bounds.counts), ...Object.entries(bounds.resources)]
  return [confinementOf(bounds, filter), filter.toString('hex'), ...limits.map(([key, value]) => `${key}=${value}`)]
}

/**
 * Identifies filter and bounds. A guest's monitor has the value of its start in its environment, which only root can
 * change.
 */
export function confinementOf(bounds: NamespaceBounds, filter: Buffer): string {
  return createHash('sha256').update(JSON.stringify(bounds)).update(filter).digest('hex').slice(0, 16)
}

/**
 * @returns the value that the monitor was started with; undefined if it has ended, or was started by a version without
 * it
 */
export function readConfinement(monitorPid: number): string | undefined {
  const variables = (readKernelFile(`/proc/${monitorPid}/environ`) ?? '').split('\0')
  return variables.find((variable) => variable.startsWith('BERTH_CONFINEMENT='))?.split('=')[1]
}
