import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'

/*
 * Removes everything that killed test runs left on the host. The names of all objects that tests create, or of their
 * directories, begin with `btest`.
 */

const testFolders = ['/tmp', '/var/tmp', '/run', '/var/lib', '/dev/shm']
const below = (prefix: string): string => `/(tmp|var/tmp|run|var/lib|dev/shm)/${prefix}`

/** True if another test run or a benchmark is active. Its files and processes must not be removed. */
export function isOtherRunActive(): boolean {
  const active = /node_modules\/(\.bin\/mocha|mocha\/(bin|lib\/cli)\/)|tsx test\/bench\/main\.ts/
  return readProcesses().some(({ command }) => active.test(command))
}

export interface LeftoverNames {
  /** Prefix of the names of everything to remove. Only the clocks of libfaketime have other names. */
  readonly prefix: string
  /** Text in the names of the shared clocks that libfaketime creates. */
  readonly clocks: string
}

export function removeLeftovers({ prefix, clocks }: LeftoverNames = { prefix: 'btest', clocks: 'faketime' }): void {
  // Kills twice. A supervisor may have restarted a process in the first round before the supervisor was killed.
  for (let round = 0; round < 2; round += 1) killProcesses(prefix)
  removeNetwork(prefix)
  removeMounts(prefix)
  removeControlGroups('/sys/fs/cgroup', prefix)
  removeFiles(prefix, clocks)
}

interface ProcessEntry {
  readonly pid: number
  readonly parent: number
  readonly command: string
}

function killProcesses(prefix: string): void {
  const all = readProcesses()
  const named = all.filter(
    ({ pid, command }) =>
      new RegExp(below(prefix)).test(command) || isInside(pid, prefix) || hasDisk(pid, command, prefix),
  )
  // The command of a container's first process does not name the container. Its parent, the monitor, identifies it.
  const guests = named
    .filter(({ command }) => command.startsWith('[lxc monitor]'))
    .flatMap((monitor) => all.filter(({ parent }) => parent === monitor.pid))
  const spared = ancestors(all)
  for (const { pid } of [...guests, ...named]) if (!spared.has(pid)) kill(pid)
}

/** True if a process works in a directory of a test. The command line of redis-server does not show this directory. */
const isInside = (pid: number, prefix: string): boolean =>
  new RegExp(`^${below(prefix)}`).test(linkOr(`/proc/${pid}/cwd`, ''))

/** True if a virtual machine has a disk of a test open. The command line of its process does not show this. */
function hasDisk(pid: number, command: string, prefix: string): boolean {
  const pattern = new RegExp(`^${below(prefix)}`)
  return /^(\S*\/)?qemu-system/.test(command) && openFiles(pid).some((path) => pattern.test(path))
}

function ancestors(all: readonly ProcessEntry[]): Set<number> {
  const parents = new Map(all.map(({ pid, parent }) => [pid, parent]))
  const found = new Set<number>()
  for (let pid: number | undefined = process.pid; pid !== undefined && pid > 0; pid = parents.get(pid)) found.add(pid)
  return found
}

function removeNetwork(prefix: string): void {
  const namespaces = list('ip', ['-json', 'netns', 'list']) as { name: string }[]
  for (const { name } of namespaces) if (name.startsWith(prefix)) attempt('ip', ['netns', 'delete', name])
  const links = list('ip', ['-json', 'link', 'show']) as { ifname: string; master?: string }[]
  // Guests' interfaces lack the prefix. They are found as ports of bridges with the prefix, and are deleted first.
  const ports = links.filter(({ master }) => master?.startsWith(prefix))
  const own = links.filter(({ ifname }) => ifname.startsWith(prefix))
  for (const { ifname } of [...ports, ...own]) attempt('ip', ['link', 'delete', ifname])
  const tables = print('nft', ['list', 'tables']).split('\n')
  for (const [, family = '', name = ''] of tables.map((line) => line.split(' ')))
    if (name.startsWith(prefix)) attempt('nft', ['delete', 'table', family, name])
}

/** Unmounts the deepest mounts first, then detaches the loop devices of files that tests created. */
function removeMounts(prefix: string): void {
  const pattern = new RegExp(`^${below(`(berth-)?${prefix}`)}`)
  const lines = readFileSync('/proc/self/mounts', 'utf8').split('\n')
  const places = lines.map((line) => unescapeMount(line.split(' ')[1] ?? '')).filter((place) => pattern.test(place))
  for (const place of places.sort().reverse()) attempt('umount', ['--lazy', place])
  const { loopdevices } = list('losetup', ['--list', '--json'], { loopdevices: [] }) as LoopDevices
  for (const device of loopdevices)
    if (pattern.test(device['back-file'] ?? '')) attempt('losetup', ['--detach', device.name])
}

interface LoopDevices {
  readonly loopdevices: readonly { name: string; 'back-file': string | null }[]
}

/** Decodes octal escapes of spaces and similar characters (fstab(5)). */
const unescapeMount = (place: string): string =>
  place.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))

function removeControlGroups(directory: string, prefix: string): void {
  for (const name of names(directory, { foldersOnly: true })) {
    const path = join(directory, name)
    removeControlGroups(path, prefix)
    if (!name.includes(prefix)) continue
    try {
      rmdirSync(path)
    } catch {
      // A process still uses the cgroup, or the cgroup no longer exists.
    }
  }
}

function removeFiles(prefix: string, clocks: string): void {
  const paths = [
    ...testFolders.flatMap((folder) => namesWith(folder, (name) => name.startsWith(prefix))),
    ...namesWith('/var/log', (name) => name.startsWith(`berth-${prefix}`)),
    ...unusedClocks(clocks),
  ]
  if (paths.length > 0) attempt('rm', ['-rf', '--one-file-system', '--', ...paths])
}

/** Returns the files of libfaketime's clocks in /dev/shm that no process has mapped. */
function unusedClocks(part: string): string[] {
  const clocks = namesWith('/dev/shm', (name) => name.includes(part))
  if (clocks.length === 0) return []
  const maps = readProcesses().map(({ pid }) => readOr(`/proc/${pid}/maps`, ''))
  return clocks.filter((path) => !maps.some((text) => text.includes(path)))
}

const namesWith = (folder: string, test: (name: string) => boolean): string[] =>
  names(folder)
    .filter(test)
    .map((name) => join(folder, name))

function names(directory: string, { foldersOnly = false } = {}): string[] {
  try {
    const entries = readdirSync(directory, { withFileTypes: true })
    return entries.filter((entry) => !foldersOnly || entry.isDirectory()).map(({ name }) => name)
  } catch {
    return [] // the directory does not exist, or no longer exists
  }
}

function readProcesses(): ProcessEntry[] {
  return names('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => ({
      pid: Number(pid),
      parent: Number(/^PPid:\s*(\d+)/m.exec(readOr(`/proc/${pid}/status`, ''))?.[1] ?? 0),
      command: readOr(`/proc/${pid}/cmdline`, '').replaceAll('\0', ' '),
    }))
}

function openFiles(pid: number): string[] {
  return names(`/proc/${pid}/fd`).map((name) => linkOr(`/proc/${pid}/fd/${name}`, ''))
}

function linkOr(path: string, other: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return other // the file was closed, or the process has ended
  }
}

function readOr(path: string, other: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return other // the process has ended
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // The process has already ended.
  }
}

/** Returns the JSON output of a tool. Some tools print nothing if they find nothing. */
function list(command: string, args: readonly string[], empty: unknown = []): unknown {
  const text = print(command, args)
  return text.trim() === '' ? empty : JSON.parse(text)
}

function print(command: string, args: readonly string[]): string {
  return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
}

/** Runs a command that removes an object. Ignores a failure, because the next test run tries again. */
function attempt(command: string, args: readonly string[]): void {
  try {
    execFileSync(command, args, { stdio: 'ignore' })
  } catch {
    // The object no longer exists, or is still in use.
  }
}
