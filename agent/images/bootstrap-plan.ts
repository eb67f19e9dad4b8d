import type { TaskStage } from '../../shared/task-stages.js'
import { packages } from './content.js'
import { diskPackages, planInitramfs, rescuePackages } from './disks/plan-content.js'
import type { Recipe } from './catalog.js'
import type { SourceLines } from './mirror.js'

/**
 * Plans the command that installs Debian in `target`. The command runs in a new PID namespace, whose first process dies
 * with unshare(1) (--kill-child). Killing unshare therefore also ends mmdebstrap, apt and dpkg.
 */
export function planBootstrap(entry: Recipe, target: string, sources: SourceLines): string[] {
  return [
    '--mount',
    '--pid',
    '--fork',
    '--kill-child',
    '--mount-proc',
    '--',
    'mmdebstrap',
    '--mode=root',
    '--variant=minbase',
    '--format=directory',
    `--architectures=${entry.arch}`,
    `--include=${packagesOf(entry).join(',')}`,
    ...hooksOf(entry),
    // Trusts only Debian's keys. The host's own apt can trust further keys.
    '--keyring=/usr/share/keyrings/debian-archive-keyring.gpg',
    '--dpkgopt=force-unsafe-io', // safe, because an unfinished tree is deleted after a power loss
    entry.suite,
    target,
    ...sources,
  ]
}

function packagesOf({ virtualization }: Recipe): readonly string[] {
  if (virtualization === 'lxc') return packages
  return [...packages, ...diskPackages, ...(virtualization === 'rescue' ? rescuePackages : [])]
}

/** Returns mmdebstrap hooks that write the initramfs configuration. Hooks run in a shell with the tree's path as $1. */
function hooksOf({ virtualization }: Recipe): string[] {
  if (virtualization === 'lxc') return []
  return planInitramfs().flatMap(({ directory, name, lines }) => [
    `--essential-hook=mkdir -p "$1/${directory}"`,
    `--essential-hook=printf '%s\\n' ${lines.join(' ')} > "$1/${directory}/${name}"`,
  ])
}

/** Lines of mmdebstrap's output in their order, each with the fraction of the total time that has passed by then. */
const stages: readonly (readonly [pattern: RegExp, fraction: number, stage: TaskStage])[] = [
  [/^I: running apt-get update/, 0.02, 'reading package lists'],
  [/^I: downloading packages/, 0.12, 'downloading packages'],
  [/^I: extracting archives/, 0.3, 'extracting packages'],
  [/^I: installing essential packages/, 0.4, 'installing essential packages'],
  [/^I: installing remaining packages/, 0.6, 'installing packages'],
  [/^I: cleaning package lists/, 0.95, 'cleaning up'],
]

/** Parses the progress from a line of mmdebstrap's standard error; undefined if the line shows no progress. */
export function parseProgress(line: string): { fraction: number; stage: TaskStage } | undefined {
  const found = stages.find(([pattern]) => pattern.test(line))
  return found && { fraction: found[1], stage: found[2] }
}

/** Finds the reason for a failure of mmdebstrap in its standard error. */
export function parseFailure(stderr: string): 'full' | 'network' | 'signature' | 'other' {
  if (/No space left on device|Disk quota exceeded/.test(stderr)) return 'full'
  if (/NO_PUBKEY|is not signed|not valid yet|expired|BADSIG/.test(stderr)) return 'signature'
  if (/Could not resolve|Failed to fetch|Unable to connect|Connection (failed|refused|timed out)/.test(stderr))
    return 'network'
  return 'other'
}
