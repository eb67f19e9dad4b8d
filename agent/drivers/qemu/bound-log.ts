import { statSync, truncateSync } from 'node:fs'

const mostLogBytes = 2 ** 20

/**
 * Truncates QEMU's log if it exceeds 1 MiB, because a guest can cause endless log lines. QEMU appends to the file, so
 * its next line is then the first one. Does nothing if the log does not exist.
 */
export function boundLog(path: string): void {
  const { size } = statSync(path, { throwIfNoEntry: false }) ?? { size: 0 }
  if (size > mostLogBytes) truncateSync(path)
}
