import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { exitCodes, fileError, systemErrorText, type ExitCode } from './errors.js'
import type { Surroundings } from './surroundings.js'

/* This module gives the program access to its process: environment, terminal, output and files. */

/** Returns the surroundings of this process. It continues if its output is lost, to report its exit code. */
export function processSurroundings(env: NodeJS.ProcessEnv): Surroundings {
  const show = displayFor(env)
  process.stdout.on('error', loseOutput)
  process.stderr.on('error', () => undefined)
  return {
    env,
    home: homedir(),
    isRoot: process.getuid?.() === 0,
    width: process.stdout.isTTY ? process.stdout.columns : undefined,
    hasProgress: process.stderr.isTTY,
    writeOut: (text) => void process.stdout.write(typeof text === 'string' ? show(text) : text),
    writeError: (text) => void process.stderr.write(show(text)),
    endWithReader,
    nowMs: () => Date.now(),
    readFile: readOnce,
  }
}

let lostOutput: NodeJS.ErrnoException | undefined
/** Text to print before the process ends because nobody reads its output. Undefined: it continues. */
let farewell: string | undefined

function loseOutput(cause: NodeJS.ErrnoException): void {
  lostOutput ??= cause
  if (farewell !== undefined) endAfterLoss(cause, farewell)
}

function endWithReader(text = ''): void {
  farewell = text
  if (lostOutput) endAfterLoss(lostOutput, text)
}

function endAfterLoss({ code }: NodeJS.ErrnoException, text: string): never {
  if (code === 'EPIPE') process.stderr.write(text)
  process.exit(finalCode(exitCodes.ok))
}

/**
 * Returns the exit code of a command that has ended. It succeeds if its reader needs no more output, as with `| head`. It
 * fails if its output could not be written for another reason.
 */
export function finalCode(code: ExitCode): ExitCode {
  if (code !== exitCodes.ok || lostOutput === undefined || lostOutput.code === 'EPIPE') return code
  process.stderr.write(`berth: the output cannot be written: ${systemErrorText(lostOutput)}\n`)
  return exitCodes.failed
}

/** Replaces “…”, the only non-ASCII character of the program's own texts, if the locale's encoding is not UTF-8. */
function displayFor({ LC_ALL: all, LC_CTYPE: type, LANG: language }: NodeJS.ProcessEnv): (text: string) => string {
  return /^$|utf-?8/i.test(all || type || language || '') ? (text) => text : (text) => text.replaceAll('…', '~')
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
    throw fileError(path, cause)
  }
}
