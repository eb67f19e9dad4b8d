import { existsSync, statSync } from 'node:fs'
import { probeAccelerator } from '../../host/guest/qemu.js'
import { readKernelFile } from '../../host/process/proc.js'

/** How guests' instructions run on this host. */
export interface Acceleration {
  readonly kind: 'kvm' | 'tcg'
  /** Reason why it is not kvm; empty for kvm. */
  readonly reason: string
  /** The group that may open /dev/kvm. */
  readonly groupId?: number
}

const device = '/dev/kvm'
const probeTimeoutMs = 3000
const groupAccess = 0o060

/**
 * Returns kvm if the processor supports it and a test guest responds, since a /dev/kvm that opens may still hang. Costs
 * nothing on a processor without kvm.
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
      `${device} is only accessible to root, but guests run as users of their own: chgrp kvm, chmod 660`,
    )
  return { kind: 'kvm', reason: '', groupId: gid }
}

function translated(reason: string): Acceleration {
  return { kind: 'tcg', reason }
}
