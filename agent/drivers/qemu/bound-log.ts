import { statSync, truncateSync } from 'node:fs'

const mostLogBytes = 2 ** 20

/**
 * Empties what QEMU has said once it is above 1 MiB: a guest makes it say things as fast as it writes to a device. QEMU
 * appends to it, so it goes on at the beginning. Does nothing where there is none.
 */
export function boundLog(path: string): void {
  const { size } = statSync(path, { throwIfNoEntry: false }) ?? { size: 0 }
  if (size > mostLogBytes) truncateSync(path)
}
