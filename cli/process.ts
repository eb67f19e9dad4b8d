import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { exitCodes, usageError } from './errors.js'
import type { Surroundings } from './surroundings.js'

/* This module gives the program access to its process: environment, terminal, output and files. */

/** Returns the surroundings of this process. Ends the process when nobody reads its output, as with `| head`. */
export function processSurroundings(env: NodeJS.ProcessEnv): Surroundings {
  const show = displayFor(env)
  process.stdout.on('error', (cause: NodeJS.ErrnoException) => {
    process.exit(cause.code === 'EPIPE' ? exitCodes.ok : exitCodes.failed)
  })
  return {
    env,
    home: homedir(),
    isRoot: process.getuid?.() === 0,
    width: process.stdout.isTTY ? process.stdout.columns : undefined,
    hasProgress: process.stderr.isTTY,
    writeOut: (text) => void process.stdout.write(typeof text === 'string' ? show(text) : text),
    writeError: (text) => void process.stderr.write(show(text)),
    nowMs: () => Date.now(),
    readFile: readOnce,
  }
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
    throw usageError(`${path}: ${(cause as Error).message}`)
  }
}
