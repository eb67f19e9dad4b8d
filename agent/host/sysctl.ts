import { readFile, writeFile } from 'node:fs/promises'

const at = (path: string): string => `/proc/sys/${path}`

/** A kernel setting as a number, in the agent's own network namespace; undefined when there is none. */
export async function findSysctl(path: string): Promise<number | undefined> {
  try {
    return Number((await readFile(at(path), 'utf8')).trim())
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw cause
  }
}

export async function writeSysctl(path: string, value: number): Promise<void> {
  await writeFile(at(path), `${value}\n`)
}
