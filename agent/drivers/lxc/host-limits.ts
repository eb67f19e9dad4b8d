import { writeFileSync } from 'node:fs'
import { readKernelFile } from '../../host/proc.js'
import { planSysctls, type Sysctl } from './plan-sysctls.js'

/**
 * Raises what many guests at once run into; what is higher already, or not there, stays.
 * @returns what was raised, as `name: old → new`
 */
export function ensureHostLimits(): string[] {
  const has = new Map<string, number>()
  for (const { name } of planSysctls(new Map())) {
    const text = readKernelFile(pathOf(name))?.trim()
    if (text !== undefined && /^\d+$/.test(text)) has.set(name, Number(text))
  }
  return planSysctls(has).flatMap((sysctl) => raise(sysctl, has.get(sysctl.name)))
}

function raise({ name, value }: Sysctl, old: number | undefined): string[] {
  if (old === undefined) return []
  try {
    writeFileSync(pathOf(name), `${value}`)
  } catch (error) {
    // A container's /proc/sys may be read-only: guests still run, only fewer of them.
    if (!['EACCES', 'EPERM', 'EROFS', 'EINVAL'].includes((error as NodeJS.ErrnoException).code ?? ''))
      throw error
    return [`${name}: stays ${old}, ${value} refused`]
  }
  return [`${name}: ${old} → ${value}`]
}

function pathOf(name: string): string {
  return `/proc/sys/${name.replaceAll('.', '/')}`
}
