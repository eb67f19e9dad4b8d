import { chmod, mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ContentStep } from './content.js'

/** Applies steps to a tree. The tree must consist of signed packages, in a directory that only root can enter. */
export async function applyContent(root: string, steps: readonly ContentStep[]): Promise<void> {
  for (const step of steps) await applyStep(root, step)
}

async function applyStep(root: string, step: ContentStep): Promise<void> {
  const path = join(root, step.op === 'empty' ? step.directory : step.path)
  switch (step.op) {
    case 'write':
      await ensureDirectory(dirname(path))
      await writeFile(path, step.text)
      return chmod(path, step.mode)
    case 'link':
      await ensureDirectory(dirname(path))
      await rm(path, { force: true })
      return symlink(step.target, path)
    case 'remove':
      return rm(path, { force: true })
    case 'empty':
      for (const name of await readdir(path)) await rm(join(path, name), { recursive: true, force: true })
  }
}

/** Creates a directory with mode 0755, regardless of the agent's umask. Does not change an existing directory. */
async function ensureDirectory(path: string): Promise<void> {
  const made = await mkdir(path, { recursive: true })
  if (made !== undefined) await chmod(made, 0o755)
}
