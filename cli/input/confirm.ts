import { createInterface } from 'node:readline/promises'
import { CliError, exitCodes, usageError } from '../errors.js'

/** Asks the user at the terminal. @throws {CliError} if the user does not agree, or there is no terminal */
export async function confirm(question: string): Promise<void> {
  if (!process.stdin.isTTY)
    throw usageError('nothing was changed: the confirmation needs a terminal', 'confirm with --yes')
  const prompt = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const answer = await Promise.race([prompt.question(`${question} [y/N] `), closed(prompt)])
    if (!/^y(es)?$/i.test(answer.trim())) throw new CliError(exitCodes.failed, 'nothing was changed')
  } finally {
    prompt.close()
  }
}

/** Resolves when Ctrl-C or Ctrl-D closes the prompt without an answer. */
function closed(prompt: { once(event: 'close', listener: () => void): unknown }): Promise<string> {
  return new Promise((resolve) => prompt.once('close', () => resolve('')))
}
