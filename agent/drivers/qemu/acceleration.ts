import { existsSync, statSync } from 'node:fs'
import { probeAccelerator } from '../../host/guest/qemu.js'
import { readKernelFile } from '../../host/process/proc.js'

/** The way in which this host runs guests' instructions: by kvm, or translated by QEMU (tcg). */
export interface Acceleration {
  readonly kind: 'kvm' | 'tcg'
  /** Reason why kvm is not used; empty for kvm. */
  readonly reason: string
  /** Id of the group that is allowed to open /dev/kvm. */
  readonly groupId?: number
}

const device = '/dev/kvm'
const probeTimeoutMs = 3000
const groupAccess = 0o060

/**
 * Returns kvm if the processor supports it, a test guest runs with it, and a group is allowed to open /dev/kvm. The
 * test guest is needed because /dev/kvm can hang. Without the processor's support, no test guest is started.
 */
export async function findAcceleration(): Promise<Acceleration> {
  if (!existsSync(device)) return translated(`${device} does not exist`)
  if (!/^flags\s*:.*\b(?:vmx|svm)\b/m.test(readKernelFile('/proc/cpuinfo') ?? ''))
    return translated('the processor has no virtualization extensions (vmx or svm)')
  const hindrance = await probeAccelerator('kvm', probeTimeoutMs)
  if (hindrance !== undefined) return translated(`${device}: ${hindrance}`)
  const { mode, gid } = statSync(device)
  if (gid === 0 || (mode & groupAccess) !== groupAccess)
    return translated(
      `${device} is only accessible to root, but each guest runs as a user of its own: set the group kvm and the mode 660`,
    )
  return { kind: 'kvm', reason: '', groupId: gid }
}

function translated(reason: string): Acceleration {
  return { kind: 'tcg', reason }
}
