import { writeFileSync } from 'node:fs'
import { readKernelFile } from '../../host/process/proc.js'
import { planSysctls, type Sysctl } from './plan-sysctls.js'

/**
 * Raises kernel limits that many guests together would reach. Skips limits that are already higher or do not exist.
 * @returns the raised limits, as `name: old → new`
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
    // /proc/sys is read-only in some containers. The limit then stays unchanged, and fewer guests can run.
    if (!['EACCES', 'EPERM', 'EROFS', 'EINVAL'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    return [`${name}: the kernel did not allow the change from ${old} to ${value}`]
  }
  return [`${name}: ${old} → ${value}`]
}

function pathOf(name: string): string {
  return `/proc/sys/${name.replaceAll('.', '/')}`
}
