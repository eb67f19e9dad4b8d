import { lstat, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import { changeRoot } from '../host/guest/guest-root.js'
import { CommandError } from '../host/process/process.js'
import { askedAbout, planAdaptation, planNetwork, type TreeFacts } from './plan-adapt.js'

/**
 * Maximum sizes in bytes of files that are read. A changed configuration becomes an argument of a program, and the
 * kernel limits the length of arguments.
 */
const largest = { accounts: 1024 ** 2, configuration: 64 * 1024 } as const
const mostKeys = 32

/**
 * Adapts a foreign root filesystem to guests of this host. Other programs must not use the filesystem at the same time.
 * Links in it are detected and never followed.
 * @throws {BerthError} `image_invalid` if it is not a Linux root filesystem
 */
export async function adaptTree(root: string): Promise<void> {
  await checkSystem(root)
  try {
    await changeRoot(root, planAdaptation(await readFacts(root)))
  } catch (error) {
    if (error instanceof CommandError) throw invalid(error.stderr.trim().slice(0, 200), error)
    throw error
  }
}

/** Checks that the tree is a Linux root filesystem. @throws {BerthError} `image_invalid` */
export async function checkSystem(root: string): Promise<void> {
  const accounts = await readPlain(root, 'etc/passwd', largest.accounts)
  if (!/^root:/m.test(accounts)) throw invalid('/etc/passwd does not contain root')
}

/** Makes the network services of an imported system ignore the interface that the host configures. */
export async function adaptNetwork(root: string): Promise<void> {
  await changeRoot(root, planNetwork(await readFacts(root)))
}

async function readFacts(root: string): Promise<TreeFacts> {
  const directories = await those(askedAbout.directories, (path) => isKind(root, path, 'directory'))
  const files = await those(askedAbout.files, (path) => isKind(root, path, 'file'))
  const names = directories.has('etc/ssh') ? await readdir(join(root, 'etc/ssh')) : []
  const hostKeys = names.filter((name) => /^ssh_host_[a-z0-9_]{1,32}(\.pub)?$/.test(name)).slice(0, mostKeys)
  const sshdConfig = await readPlain(root, 'etc/ssh/sshd_config', largest.configuration)
  return { directories, files, hostKeys, sshdConfig }
}

async function those(
  paths: readonly string[],
  holds: (path: string) => Promise<boolean>,
): Promise<ReadonlySet<string>> {
  const found = new Set<string>()
  for (const path of paths) if (await holds(path)) found.add(path)
  return found
}

/** Reads a text file. Returns '' if it does not exist, is not a regular text file, or is too large. */
async function readPlain(root: string, path: string, maxBytes: number): Promise<string> {
  if (!(await isKind(root, path, 'file'))) return ''
  const { size } = await lstat(join(root, path))
  const text = size > maxBytes ? '' : await readFile(join(root, path), 'utf8')
  return text.includes('\0') ? '' : text
}

/** True if the path is of this kind and is reached without symbolic links. */
async function isKind(root: string, path: string, kind: 'file' | 'directory'): Promise<boolean> {
  let at = root
  const names = path.split('/')
  for (const [index, name] of names.entries()) {
    at = join(at, name)
    const found = await lstat(at).catch(() => undefined)
    if (!found) return false
    const isLast = index === names.length - 1
    if (isLast && kind === 'file' ? !found.isFile() : !found.isDirectory()) return false
  }
  return true
}

function invalid(message: string, cause?: unknown): BerthError {
  return new BerthError(
    'invalid',
    'image_invalid',
    `this is not the root file system of a Linux distribution: ${message}`,
    {
      cause,
    },
  )
}
