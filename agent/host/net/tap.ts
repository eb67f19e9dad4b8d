import { runPerl } from '../process/process.js'

/** The host's end of a virtual machine's interface. */
export interface Tap {
  readonly device: string
  readonly bridge: string
  readonly mac: string
}

/**
 * Creates the tap of a running QEMU again, after it was deleted. QEMU's open descriptor gets the new tap, so that QEMU
 * and its guest notice nothing.
 * @param procs path of `cgroup.procs` in the guest's cgroup
 * @throws {CommandError} for example if the process has ended
 */
export async function attachTap(pid: number, procs: string, tap: Tap): Promise<void> {
  await runPerl('attach-tap', [`${pid}`, procs, tap.device, tap.bridge, tap.mac], { timeoutMs: 10_000 })
}
