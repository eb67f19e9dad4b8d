import { execFileSync } from 'node:child_process'

/** Runs a program. @returns its standard output @throws with its standard error if it fails */
export function sh(program: string, ...args: string[]): string {
  return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}
