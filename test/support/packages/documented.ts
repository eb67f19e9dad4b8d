import { readFileSync } from 'node:fs'

/**
 * Returns the commands of a code block in the documentation. A test then runs exactly what operators copy.
 * @param page for example docs/upgrades.md
 * @param text a part of the code block
 * @throws {RangeError} unless exactly one code block of the page contains the text
 */
export function documented(page: string, text: string): string {
  const blocks = [...readFileSync(page, 'utf8').matchAll(/^( *)```sh\n([^]*?)\n\1```$/gm)]
    .map(([, indentation = '', block = '']) => block.replaceAll(new RegExp(`^${indentation}`, 'gm'), ''))
    .filter((block) => block.includes(text))
  if (blocks.length !== 1) throw new RangeError(`${page} has ${blocks.length} code blocks with ${text}`)
  return blocks[0]!
}
