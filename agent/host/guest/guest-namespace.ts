import { createHash } from 'node:crypto'
import { readKernelFile } from '../process/proc.js'

/** Limits of a guest's user namespace. Each limit applies to all user ids of the guest together. */
export interface NamespaceBounds {
  /** Values for files of /proc/sys/user. Files that do not exist in this kernel are skipped. */
  readonly counts: Readonly<Record<string, number>>
  /** Resource limits that apply to the whole user namespace. Keys are RLIMIT_* numbers (linux/resource.h). */
  readonly resources: Readonly<Record<number, number>>
}

/**
 * Returns those arguments of perl/start-guest.pl that follow the name of the log file. The program starts a container
 * with the system call filter `filter`, in a user namespace with the limits `bounds`. When a rebooted guest starts
 * again, the program has inherited the filter and does not add the filter a second time. Filters cannot be removed, so
 * a guest that keeps rebooting would otherwise reach the kernel's limit.
 * @param filter seccomp program for the container and its monitor, as bytes of struct sock_filter
 */
export function namespaceArguments(bounds: NamespaceBounds, filter: Buffer): string[] {
  const limits = [...Object.entries(bounds.counts), ...Object.entries(bounds.resources)]
  return [confinementOf(bounds, filter), filter.toString('hex'), ...limits.map(([key, value]) => `${key}=${value}`)]
}

/**
 * Returns a hash of a guest's limits and system call filter. The hash with which the guest was started is in the
 * environment of its monitor process, which only root can change.
 */
export function confinementOf(bounds: NamespaceBounds, filter: Buffer): string {
  return createHash('sha256').update(JSON.stringify(bounds)).update(filter).digest('hex').slice(0, 16)
}

/**
 * Reads the result of `confinementOf` with which a monitor was started. Undefined: the monitor has ended, or an older
 * version of the agent started it and stored no result.
 */
export function readConfinement(monitorPid: number): string | undefined {
  const variables = (readKernelFile(`/proc/${monitorPid}/environ`) ?? '').split('\0')
  return variables.find((variable) => variable.startsWith('BERTH_CONFINEMENT='))?.split('=')[1]
}
