import { statSync, truncateSync } from 'node:fs'

const mostLogBytes = 2 ** 20

/**
 * Truncates QEMU's log once it exceeds 1 MiB: a guest can cause log lines as fast as it writes to a device. QEMU
 * appends, so it continues at the beginning. Does nothing if the log does not exist.
 */
export function boundLog(path: string): void {
  const { size } = statSync(path, { throwIfNoEntry: false }) ?? { size: 0 }
  if (size > mostLogBytes) truncateSync(path)
}
