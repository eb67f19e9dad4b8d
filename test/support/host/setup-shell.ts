import { spawnSync } from 'node:child_process'

interface Outcome {
  /** Exit code of the program; null if a signal ended it. */
  code: number | null
  output: string
}

export function run(program: string, args: string[], environment: NodeJS.ProcessEnv = process.env): Outcome {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8', env: environment })
  return { code: status, output: stdout + stderr }
}

/** Returns arguments for bash to run lines that use functions of scripts/up and scripts/lib. */
export function withSetupFunctions(lines: string): string[] {
  return ['-c', `. scripts/up\n. scripts/lib/purge.sh\n${lines}`]
}

/** Runs shell lines that use functions of the set-up scripts. */
export const shell = (lines: string): Outcome => run('bash', withSetupFunctions(lines))
