import { spawnSync } from 'node:child_process'

interface Outcome {
  /** null when a signal ended it. */
  code: number | null
  output: string
}

export function run(program: string, args: string[], environment: NodeJS.ProcessEnv = process.env): Outcome {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8', env: environment })
  return { code: status, output: stdout + stderr }
}

/** Arguments of bash for lines that use the functions of scripts/up and scripts/lib. */
export function withSetupFunctions(lines: string): string[] {
  return ['-c', `. scripts/up\n. scripts/lib/purge.sh\n${lines}`]
}

/** Runs lines of shell with the scripts' functions. */
export const shell = (lines: string): Outcome => run('bash', withSetupFunctions(lines))
