import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/*
 * Selects test files, combines them into jobs and orders the jobs. Each job is a mocha process. docs/development.md
 * explains the reasons.
 */

/** Folders with tests next to the code. All files of such a folder share one process. */
const unitFolders = ['agent', 'cli', 'client', 'gateway', 'panel', 'shared', 'scripts'] as const

/**
 * Folders whose files share processes, with the number of files per process. In the first five folders, a process loads
 * the product and compiles checks of responses, which takes longer than most tests. Browser tests share Chromium.
 */
const sharedFolders = { api: 10, cli: 10, fleet: 10, operations: 10, store: 10, browser: 5 } as const

/** Files that mainly use the CPU. They need only loopback, a directory and network namespaces of their own. */
const computing = /^(?!test\/)|^test\/(api|browser|cli|fleet|network|operations|store)\//

/** Files that run only if the command line selects them. They build the packages, which takes minutes. */
const onRequest = /^test\/packages\//
/** Files that `scripts/test quick` runs. They need neither root nor Debian packages. */
const quick = /^(agent|cli|client|gateway|panel|shared|scripts|test\/operations)\//

interface Group {
  readonly name: string
  readonly files: RegExp
  /** Number of lanes that each file of the group occupies while it runs (see `Lanes`). */
  readonly lanes: number
}

/** Groups of test files. Two files of a group never run at the same time. */
const groups: readonly Group[] = [
  // These files build packages in the same directory.
  { name: 'packages', files: onRequest, lanes: 1 },
  // These files use scripts/up and scripts/down, which take a lock of the host.
  { name: 'setup', files: /^test\/setup\//, lanes: 1 },
  // These files use the same interfaces and addresses.
  { name: 'addressed', files: /^test\/agent\/(addresses|ipv6-source)/, lanes: 1 },
  // The guests of these files overload the host. While four other files ran, an agent became too slow.
  { name: 'crowd', files: /^test\/host\/(hostile-|guest-io)/, lanes: 2 },
]

/**
 * Files that get a network namespace of their own. `netlink-watch` reacts to every network change in its namespace. The
 * other two tests add the example addresses of the documentation.
 */
const inOwnNetwork = /^test\/(host\/netlink-watch|network\/(load-balancing|failover))/

/** This test file fills the image cache. All other files with guests use the cache. */
const first = 'test/host/images.test.ts'

/** Duration that is assumed for a file without a recorded duration. */
const defaultSeconds = 15
const timesFile = 'test/times.txt'

export type JobKind = 'host' | 'compute'

/** Files that one mocha process runs. */
export interface Job {
  /** Name of the file, or a name for several files. */
  readonly label: string
  readonly files: readonly string[]
  readonly kind: JobKind
  /** Expected duration in seconds. */
  readonly seconds: number
  readonly inOwnNetwork: boolean
}

/** Jobs that run one after another, never at the same time. */
export interface Chain {
  readonly jobs: readonly Job[]
  readonly kind: JobKind
  readonly group: string
  readonly lanes: number
  readonly seconds: number
}

export interface Selection {
  /** A file is selected if its path contains one of these texts. Empty: all files are selected. */
  readonly parts: readonly string[]
  readonly unitOnly: boolean
  readonly quickOnly: boolean
}

export type Times = ReadonlyMap<string, number>

export function findTests(): string[] {
  const tests = [...unitFolders, 'test'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.test.ts') && !name.includes('node_modules/'))
      .map((name) => join(folder, name)),
  )
  return tests.sort()
}

export function selectTests(files: readonly string[], { parts, unitOnly, quickOnly }: Selection): string[] {
  const wanted = parts.map((part) => part.replace(/^\.\//, ''))
  return files
    .filter((file) => (wanted.length === 0 ? !onRequest.test(file) : wanted.some((part) => file.includes(part))))
    .filter((file) => !unitOnly || !file.startsWith('test/'))
    .filter((file) => !quickOnly || quick.test(file))
}

const everything: Selection = { parts: [], unitOnly: false, quickOnly: false }

/** True if a run contains all test files. Files that run only on request are not counted. */
export function isComplete(files: readonly string[], all: readonly string[]): boolean {
  return selectTests(all, everything).every((file) => files.includes(file))
}

/**
 * Returns the chains in the order in which they begin. The file `first` is first. Chains that need several lanes
 * follow, while all lanes are free. Longer chains precede shorter ones, so that all lanes end at about the same time.
 */
export function planChains(files: readonly string[], times: Times): Chain[] {
  const jobs = planJobs(files, times)
  const grouped = groups.map((group) => ({ group, members: jobs.filter((job) => isIn(group, job)) }))
  const single = jobs.filter((job) => !groups.some((group) => isIn(group, job)))
  const chains = [
    ...grouped.filter(({ members }) => members.length > 0).map(({ group, members }) => chainOf(members, group)),
    ...single.map((job) => chainOf([job])),
  ]
  const isFirst = (chain: Chain): number => Number(chain.jobs[0]?.label === first)
  return chains.sort((a, b) => isFirst(b) - isFirst(a) || b.lanes - a.lanes || b.seconds - a.seconds)
}

const isIn = (group: Group, { label }: Job): boolean => group.files.test(label)

function chainOf(jobs: readonly Job[], group?: Group): Chain {
  const seconds = jobs.reduce((sum, job) => sum + job.seconds, 0)
  const longestFirst = [...jobs].sort((a, b) => b.seconds - a.seconds)
  const kind = jobs[0]?.kind ?? 'host'
  return { jobs: longestFirst, kind, group: group?.name ?? '', lanes: group?.lanes ?? 1, seconds }
}

function planJobs(files: readonly string[], times: Times): Job[] {
  const shared = Object.entries(sharedFolders).flatMap(([folder, size]) => splitShared(`test/${folder}`, files, size))
  const units = unitFolders.map((folder) => namedFiles(unitLabel(folder), below(folder, files)))
  const single = files.filter((file) => !isShared(file)).map((file) => namedFiles(file, [file]))
  return [...units, ...shared, ...single].filter((named) => named.files.length > 0).map((named) => jobOf(named, times))
}

interface NamedFiles {
  readonly label: string
  readonly files: readonly string[]
}

const namedFiles = (label: string, files: readonly string[]): NamedFiles => ({ label, files })
const unitLabel = (folder: string): string => `${folder} (tests next to the code)`
const below = (folder: string, files: readonly string[]): string[] =>
  files.filter((file) => file.startsWith(`${folder}/`))
const isShared = (file: string): boolean =>
  !file.startsWith('test/') || Object.keys(sharedFolders).some((folder) => file.startsWith(`test/${folder}/`))

function splitShared(folder: string, files: readonly string[], size: number): NamedFiles[] {
  const all = below(folder, files)
  const starts = all.map((_, index) => index).filter((index) => index % size === 0)
  return starts.map((start) => {
    const part = all.slice(start, start + size)
    const label = part.length === 1 && part[0] ? part[0] : `${folder} (${start / size + 1})`
    return namedFiles(label, part)
  })
}

function jobOf({ label, files }: NamedFiles, times: Times): Job {
  return {
    label,
    files,
    kind: files.every((file) => computing.test(file)) ? 'compute' : 'host',
    seconds: times.get(label) ?? files.reduce((sum, file) => sum + (times.get(file) ?? defaultSeconds), 0),
    inOwnNetwork: inOwnNetwork.test(label),
  }
}

/** Splits a job that crashed or hung into one job per file, because the results of its files are unknown. */
export function splitJob(job: Job): Job[] {
  if (job.files.length === 1 || !job.label.startsWith('test/')) return []
  return job.files.map((file) => ({ ...job, label: file, files: [file] }))
}

/** Reads the recorded durations by file. Tests next to the code have one duration for each folder. */
export function readTimes(): Times {
  const lines = readFileSync(timesFile, 'utf8').split('\n').filter(Boolean)
  return new Map(lines.map((line) => [line.replace(/^\s*\d+ /, ''), Number.parseInt(line)]))
}

/** Formats durations for the file `timesFile`, sorted by name so that a new record changes few lines. */
export function formatTimes(times: Times): string {
  const lines = [...times].map(([name, seconds]) => `${String(seconds).padStart(4)} ${name}\n`)
  return lines.sort((a, b) => (a.slice(5) < b.slice(5) ? -1 : 1)).join('')
}

export { timesFile }
