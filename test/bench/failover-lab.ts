import { spawnSync } from 'node:child_process'

/** Runs the failover laboratory in a network namespace of its own. @throws {Error} if it found a violation */
export function runFailoverLab({ minutes, seed }: { readonly minutes: number; readonly seed?: number }): void {
  const given = seed === undefined ? [] : ['--seed', String(seed)]
  const program = ['--import', 'tsx', 'test/bench/failover-lab-main.ts', '--minutes', String(minutes), ...given]
  const namespaces = ['--mount', '--propagation', 'private', '--net']
  const { status } = spawnSync('unshare', [...namespaces, process.execPath, ...program], { stdio: 'inherit' })
  if (status !== 0) throw new Error('the failover laboratory found violations, see above')
}
