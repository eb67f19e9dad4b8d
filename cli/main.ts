#!/usr/bin/env node
import { version } from '../shared/version.js'
import { exitCodes, type ExitCode } from './errors.js'
import { finalCode, processSurroundings } from './process.js'

/* Answers `--version` and completions without the rest of the program, because loading it takes most of the time. */

async function run(words: readonly string[]): Promise<ExitCode> {
  const surroundings = processSurroundings(process.env)
  if (words.length === 1 && words[0] === '--version') {
    surroundings.writeOut(`${version}\n`)
    return exitCodes.ok
  }
  if (words[0] === 'complete') {
    const { runComplete } = await import('./completion/complete.js')
    await runComplete(words.slice(words[1] === '--' ? 2 : 1), surroundings)
    return exitCodes.ok
  }
  const { runCommand } = await import('./start.js')
  return runCommand(words, surroundings)
}

/** Waits until the output is written, or its reader has ended. A pipe buffers only 64 KiB. */
const written = (stream: NodeJS.WriteStream): Promise<void> =>
  new Promise((resolve) => {
    stream.write('', () => resolve())
  })

async function main(): Promise<never> {
  const code = await run(process.argv.slice(2))
  await written(process.stdout)
  await written(process.stderr)
  process.exit(finalCode(code))
}

// The program can be bundled into one file of CommonJS. Such files have no top-level await.
void main()
