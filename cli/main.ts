#!/usr/bin/env node
import { CommanderError } from 'commander'
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { loadOperations } from './catalog/load.js'
import { cliErrorOf, exitCodes, FilterError, usageError, type ExitCode } from './errors.js'
import { printable } from './output/width.js'
import { createProgram } from './program.js'
import type { Surroundings } from './surroundings.js'

const surroundings: Surroundings = {
  env: process.env,
  home: homedir(),
  isRoot: process.getuid?.() === 0,
  width: process.stdout.isTTY ? process.stdout.columns : undefined,
  hasProgress: process.stderr.isTTY,
  writeOut: (text) => void process.stdout.write(typeof text === 'string' ? displayable(text) : text),
  writeError: (text) => void process.stderr.write(displayable(text)),
  nowMs: () => Date.now(),
  readFile: readOnce,
}

/** Replaces the only non-ASCII character of the program's own texts if the locale's encoding is not UTF-8. */
function displayable(text: string): string {
  const { LC_ALL: all, LC_CTYPE: type, LANG: language } = process.env
  return /^$|utf-?8/i.test(all || type || language || '') ? text : text.replaceAll('…', '~')
}

const files = new Map<string, string>()

/** Reads each file only once, because the standard input cannot be read again. */
function readOnce(path: string): string {
  const text = files.get(path) ?? readText(path)
  files.set(path, text)
  return text
}

function readText(path: string): string {
  try {
    return readFileSync(path === '-' ? 0 : path, 'utf8')
  } catch (cause) {
    throw usageError(`${path}: ${(cause as Error).message}`)
  }
}

/** Ends the program without a message when nobody reads its output any more, as in `berth guest list | head`. */
process.stdout.on('error', (cause: NodeJS.ErrnoException) => {
  process.exit(cause.code === 'EPIPE' ? exitCodes.ok : exitCodes.failed)
})

async function run(): Promise<ExitCode> {
  try {
    const words = process.argv.slice(2)
    await createProgram({ operations: loadOperations(), surroundings, words }).parseAsync()
    return exitCodes.ok
  } catch (cause) {
    return report(cause)
  }
}

/** Prints an error. Commander prints its own errors and help itself. */
function report(cause: unknown): ExitCode {
  if (cause instanceof CommanderError) return cause.exitCode === 0 ? exitCodes.ok : exitCodes.usage
  if (cause instanceof FilterError) surroundings.writeOut(cause.unfiltered)
  const error = cliErrorOf(cause)
  const { message } = error ?? (cause as Error)
  const red = useColor() ? ['\u001b[31m', '\u001b[0m'] : ['', '']
  const lines = message.split('\n').map(printable)
  process.stderr.write(`${red[0]}berth: ${lines.join('\nberth: ')}${red[1]}\n`)
  if (error?.hint !== undefined) process.stderr.write(`${error.hint.split('\n').map(printable).join('\n')}\n`)
  return error?.exitCode ?? exitCodes.failed
}

/** https://no-color.org: any value except an empty one turns colors off. */
const useColor = (): boolean => process.stderr.isTTY && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb'

// The program is bundled into one CommonJS module. Such modules have no top-level await.
void run().then((code) => process.exit(code))
