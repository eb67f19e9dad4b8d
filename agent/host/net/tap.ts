import { runPerl } from '../process/process.js'

/** Host's end of a machine's interface. */
export interface Tap {
  readonly device: string
  readonly bridge: string
  readonly mac: string
}

/**
 * Makes the tap of a running QEMU anew after it was deleted. QEMU and its guest do not notice: the descriptor that QEMU
 * has open gets the new one.
 * @param procs file of the guest's group that lists its processes
 * @throws {CommandError} for example when the process has ended
 */
export async function attachTap(pid: number, procs: string, tap: Tap): Promise<void> {
  await runPerl('attach-tap', [`${pid}`, procs, tap.device, tap.bridge, tap.mac], { timeoutMs: 10_000 })
}
