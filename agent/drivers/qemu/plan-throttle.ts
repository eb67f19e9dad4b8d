import type { MachineLimits } from '../machine.js'

type Rates = Pick<MachineLimits, 'ioReadBytesPerSec' | 'ioWriteBytesPerSec' | 'ioReadsPerSec' | 'ioWritesPerSec'>

/** Returns the limits of a throttle group; 0 means unlimited (QEMU: ThrottleLimits in qapi/block-core.json). */
export function throttleLimits({
  ioReadBytesPerSec: readBytes,
  ioWriteBytesPerSec: writeBytes,
  ioReadsPerSec: reads = 0,
  ioWritesPerSec: writes = 0,
}: Rates): Readonly<Record<string, number>> {
  return { 'bps-read': readBytes, 'bps-write': writeBytes, 'iops-read': reads, 'iops-write': writes }
}
