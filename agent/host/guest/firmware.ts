import { accessSync, constants, existsSync } from 'node:fs'

/** Optional features of a virtual machine. */
export interface FirmwareWish {
  readonly firmware: 'bios' | 'uefi'
  /** True for Secure Boot, which requires UEFI. The firmware's variables then contain Microsoft's keys. */
  readonly secureBoot: boolean
  readonly tpm: boolean
}

/** Firmware in Debian's package ovmf: the program, and the initial variables. */
const usual = { code: '/usr/share/OVMF/OVMF_CODE_4M.fd', vars: '/usr/share/OVMF/OVMF_VARS_4M.fd' }
const checking = {
  code: '/usr/share/OVMF/OVMF_CODE_4M.secboot.fd',
  vars: '/usr/share/OVMF/OVMF_VARS_4M.ms.fd',
}
export const tpmProgram = '/usr/bin/swtpm'

/** Returns the files of a firmware. Undefined for QEMU's own BIOS, which has no variables. */
export function firmwareFiles({
  firmware,
  secureBoot,
}: Pick<FirmwareWish, 'firmware' | 'secureBoot'>): typeof usual | undefined {
  if (firmware === 'bios') return undefined
  return secureBoot ? checking : usual
}

/** Returns the reason why this host cannot run a virtual machine with these features. Undefined: it can run one. */
export function findFirmwareHindrance(wish: FirmwareWish): string | undefined {
  const files = firmwareFiles(wish)
  const missing = files && [files.code, files.vars].find((path) => !existsSync(path))
  if (missing !== undefined) return `${missing} does not exist: install the package ovmf`
  return wish.tpm && !isExecutable(tpmProgram) ? `${tpmProgram} does not exist: install the package swtpm` : undefined
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
