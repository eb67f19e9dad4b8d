import { readFileSync } from 'node:fs'
import { checkAnswer } from '../support/gateway/api-call.js'

/**
 * Checks answers that another program has written to a file. Each answer has a line `METHOD PATH`, the status line and
 * headers as received, an empty line, and the body on one line.
 * @returns the number of answers
 */
export async function checkTranscript(url: string, file: string): Promise<number> {
  const exchanges = readFileSync(file, 'utf8').split(/^(?=[A-Z]+ \/)/m)
  for (const exchange of exchanges) {
    const [request = '', statusLine = '', ...rest] = exchange.split('\n')
    const [method = '', path = ''] = request.split(' ')
    const gap = rest.indexOf('')
    const text = rest
      .slice(gap + 1)
      .join('\n')
      .trim()
    await checkAnswer(url, [method, `/api/v1${path}`], {
      status: Number(statusLine.split(' ')[1]),
      text,
      body: JSON.parse(text),
      headers: Object.fromEntries(rest.slice(0, gap).map(parseHeader)),
    })
  }
  return exchanges.length
}

function parseHeader(line: string): [string, string] {
  const colon = line.indexOf(':')
  return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
}
