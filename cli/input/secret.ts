import { usageError } from '../errors.js'
import type { Surroundings } from '../surroundings.js'

const [enter, newLine, interrupt, end, backspace, erase] = ['\r', '\n', '\u0003', '\u0004', '\b', '\u007f']

/** Reads a line from the terminal without echo; without a terminal, the whole input. @throws {CliError} `usage` */
export async function readSecret(question: string, surroundings: Surroundings): Promise<string> {
  const { stdin } = process
  if (!stdin.isTTY) return surroundings.readFile('-')
  surroundings.writeError(question)
  stdin.setRawMode(true)
  stdin.setEncoding('utf8')
  try {
    return await readLine(stdin)
  } finally {
    stdin.setRawMode(false)
    stdin.pause()
    surroundings.writeError('\n')
  }
}

async function readLine(input: AsyncIterable<unknown>): Promise<string> {
  let line = ''
  for await (const chunk of input)
    for (const character of String(chunk)) {
      if (character === enter || character === newLine || character === end) return line
      if (character === interrupt) throw usageError('canceled')
      line = character === backspace || character === erase ? line.slice(0, -1) : line + character
    }
  return line
}
