import { writeFile } from 'node:fs/promises'
import { readKernelFile } from '../process/proc.js'

const at = (path: string): string => `/proc/sys/${path}`

/** Reads a numeric kernel setting in the agent's network namespace. Undefined if the setting does not exist. */
export function findSysctl(path: string): number | undefined {
  const text = readKernelFile(at(path))
  return text === undefined ? undefined : Number(text.trim())
}

export async function writeSysctl(path: string, value: number): Promise<void> {
  await writeFile(at(path), `${value}\n`)
}
