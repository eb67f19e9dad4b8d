import type { MachineLimits } from '../machine.js'

type Rates = Pick<MachineLimits, 'ioReadBytesPerSec' | 'ioWriteBytesPerSec' | 'ioReadsPerSec' | 'ioWritesPerSec'>

/** Limits of a throttle group; 0: unlimited. Source: ThrottleLimits in qapi/block-core.json of QEMU */
export function throttleLimits({
  ioReadBytesPerSec: readBytes,
  ioWriteBytesPerSec: writeBytes,
  ioReadsPerSec: reads = 0,
  ioWritesPerSec: writes = 0,
}: Rates): Readonly<Record<string, number>> {
  return { 'bps-read': readBytes, 'bps-write': writeBytes, 'iops-read': reads, 'iops-write': writes }
}
